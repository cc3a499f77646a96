"""Evolutions: their settings, runs, judgements and reports."""
