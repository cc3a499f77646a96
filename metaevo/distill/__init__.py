"""What was learned as formulas: symbolic regression of it, and their judgement on fresh seeds."""
