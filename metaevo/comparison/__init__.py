"""Compare recorded runs: a table, and one page with figures.

`sources` reads runs as `SeedRun`s, `curves` selects one metric of them and scores it, `grouping`
pools the seeds of equal settings, `analysis` computes every number, and `page` shows them.
"""
