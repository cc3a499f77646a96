"""Figures and pages of run reports."""
