"""Tasks, populations of agents on them, and learners as meta-problems."""
