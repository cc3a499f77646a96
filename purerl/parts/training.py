"""Training from scratch, the same for every learner."""

import jax

from purerl.types import EnvParams, Hyperparams, Learner, MetaParams, TrainResult


def train(
    learner: Learner,
    key: jax.Array,
    hyperparams: Hyperparams,
    meta_params: MetaParams,
    env_params: EnvParams,
) -> TrainResult:
    """Train one agent from scratch; metrics are reduced inside the scan, to one per update.

    A learner has this function as its method `train`.
    """

    def scan_update(state, _):
        state, sums, metrics = learner.update(state, hyperparams, meta_params, env_params)
        return state, (sums, metrics)

    state = learner.init(key, hyperparams, meta_params, env_params)
    state, (sums, metrics) = jax.lax.scan(scan_update, state, length=learner.config.num_updates)
    return TrainResult(state, sums, metrics)
