"""Searching settings: spaces, samplers, and the trials that several processes share."""
