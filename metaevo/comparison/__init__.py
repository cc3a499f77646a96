"""Compare recorded runs: a table, and one page with figures.

`sources` reads runs, `selection` chooses metric and axis, `grouping` finds the seeds of one
setting, `curves` aligns them, `analysis` computes every number, and `page` shows them.
"""
