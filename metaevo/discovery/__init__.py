"""Distillation of learned parts, and additions to the zoo."""
