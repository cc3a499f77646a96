"""Kinds of things to evolve, and the run that evolves, compares and reports them."""
