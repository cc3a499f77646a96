"""Judging a discovery on a task that its evolution has not seen."""
