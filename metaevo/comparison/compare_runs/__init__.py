"""Compare recorded runs: tables, figures and one interactive page.

`sources` reads runs from directories, wandb and MLflow, `grouping` finds the seeds of one setting,
`curves` aligns them, `analysis` computes every number, `page` and `figures` show them. The held-out
comparison of an evolution, which trains agents, is in `metaevo.comparison.comparison`.
"""
