"""The loop of learners with a replay memory: collect, learn, collect, learn, ..."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from purerl.fast.branches import cond
from purerl.parts import episodes
from purerl.types import EpisodeSums

Collect = Callable[[Any, EpisodeSums, jax.Array], tuple[Any, EpisodeSums]]
"""`(state, sums [N], key) -> state, sums` after `train_interval` environment steps"""
Learn = Callable[[Any, jax.Array], tuple[Any, dict[str, jax.Array]]]
"""`(state, key) -> state, metrics` after a learning phase"""


def run(
    state: Any,
    collect: Collect,
    learn: Learn,
    metrics: Sequence[str],
    *,
    count: int,
    waiting: int,
) -> tuple[Any, EpisodeSums, dict[str, jax.Array]]:
    """Go through the phases of one update.

    Args:
        state: of the learner, with fields `key`, `phase`, `envs` and `ring`.
        collect: increments `state.phase`.
        learn: leaves `state.ring` unchanged.
        metrics: names of the metrics that `learn` returns.
        count: phases of an update.
        waiting: phases before learning starts.

    Returns:
        the state, sums over episodes, and means of the metrics over the phases that learned.
    """

    def phase(carry, key):
        state, sums, totals = carry
        collect_key, learn_key = jax.random.split(key)
        state, sums = collect(state, sums, collect_key)

        # The replay memory stays outside: a branch that returned it would copy it.
        def learn_now():
            after, metrics = learn(state, learn_key)
            return after.replace(ring=None), {**metrics, "phases": jnp.float32(1.0)}

        def wait():
            return state.replace(ring=None), jax.tree.map(jnp.zeros_like, totals)

        after, metrics = cond(state.phase >= waiting, learn_now, wait)
        state = after.replace(ring=state.ring)
        return (state, sums, jax.tree.map(jnp.add, totals, metrics)), None

    phases_key, key = jax.random.split(state.key)
    keys = jax.random.split(phases_key, count)
    totals = dict.fromkeys((*metrics, "phases"), jnp.float32(0.0))
    carry = state.replace(key=key), episodes.zero_sums(len(state.envs.obs)), totals
    (state, sums, totals), _ = jax.lax.scan(phase, carry, keys)
    means = {name: totals[name] / jnp.maximum(totals["phases"], 1.0) for name in metrics}
    return state, jax.tree.map(jnp.sum, sums), means
