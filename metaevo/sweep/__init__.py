"""Hyperparameter sweeps: many trials, each on several seeds, trained as one vmapped population.

`settings` says what is tried, `trainings` and `evolutions` train it, `halving` and `pbt` stop and
change trials early, `run` ties them together. (`metaevo.tuning` has the space and the study.)
"""
