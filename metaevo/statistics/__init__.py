"""Statistics of runs: intervals, rank tests, and the one rule for a verdict."""
