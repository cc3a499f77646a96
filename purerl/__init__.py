"""Single-file reinforcement-learning algorithms whose whole training run is one pure JAX function.

Every learner lives in one module that reads top to bottom (`purerl.ppo`). What they share is in
`purerl.types` (the glossary), `returns`, `losses`, `networks`, `initializers` and `envs`. The
package knows nothing of evolution.
"""
