"""Compare recorded runs: tables and one interactive page.

`sources` reads runs, `grouping` finds the seeds of one setting, `curves` aligns them, `analysis`
computes every number, `words` and `page` show them.
"""
