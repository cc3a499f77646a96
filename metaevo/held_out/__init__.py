"""The held-out comparison: contenders tuned on equal budgets and judged on fresh seeds."""
