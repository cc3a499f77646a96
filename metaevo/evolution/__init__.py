"""Evolving: from the command line to the report."""
