"""Runs: their files on disk, and how they open, save, resume, stop and end."""
