"""The outer loop: a problem, strategies, and generations that run on the devices."""
