"""Compare recorded runs: a table, and one page with figures.

`sources` reads runs as `RecordedRun`s, `selection` scores the curves of one metric and pools the
seeds of equal settings, `analysis` computes every number, and `page` shows them.
"""
