"""Copies of runs on Weights & Biases and MLflow.

A run writes only to its own directory. A `Mirror` sends the directory's records through the client
of a service: in a thread while the run continues, or later from `metaevo sync`.
"""
