"""Hyperparameter sweeps: many trials, each on several seeds, trained as one vmapped population.

`settings` and `space` say what is tried, `study` keeps what was, `halving` and
`pbt` stop and change trials early, `runner` ties them together.
"""
