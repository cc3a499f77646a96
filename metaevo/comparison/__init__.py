"""Held-out comparisons of learned and hand-written rules on equal budgets."""
