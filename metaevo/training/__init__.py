"""Tasks, populations of agents, and learners as meta-problems."""
