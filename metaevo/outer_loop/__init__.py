"""The outer loop: a meta-problem, a strategy, and generations that run on the devices."""
