"""Agents that are trained side by side, and how well they learned."""
