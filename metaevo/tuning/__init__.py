"""Search spaces and studies of settings, on top of Optuna."""
