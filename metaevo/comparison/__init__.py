"""Compare recorded runs: a table, and one page with figures.

`sources` reads runs as `RecordedRun`s and splits them into `SeedRun`s, `curves` selects one metric
and scores it, `grouping` pools the seeds of equal settings, `analysis` computes every number, and
`page` shows them.
"""
