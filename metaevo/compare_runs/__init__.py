"""Comparing finished and half-written runs: which is better, by how much, and how sure that is.

`sources` reads runs from directories, wandb and MLflow, `grouping` finds which are seeds of the
same thing, `curves` aligns them, `analysis` computes every number, `page`, `figures` and
`terminal` show them. (`metaevo.held_out.comparison` is something else: the held-out protocol of an
evolution, which trains agents.)
"""
