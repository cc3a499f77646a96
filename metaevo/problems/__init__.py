"""Meta-problems: what a candidate is worth."""
