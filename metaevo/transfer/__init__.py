"""Judging what was found on a task that its evolution has not seen."""
