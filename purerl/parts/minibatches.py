"""Several passes over a batch of rollouts, in minibatches."""

from dataclasses import dataclass
from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Gt, Interval

from purerl.fast.shuffling import permutations
from purerl.parts.rollouts import RolloutConfig


@dataclass(frozen=True)
class MinibatchConfig(RolloutConfig):
    """Static settings of the passes, inherited by the `Config` of a learner.

    Raises:
        ValueError: if a batch cannot be divided into minibatches or no update fits.
    """

    update_epochs: Annotated[int, Interval(gt=0, le=1_000_000)] = 4
    """passes over each batch"""
    num_minibatches: Annotated[int, Gt(0)] = 4
    """minibatches, and gradient steps, of each pass"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_minibatches > 0 and self.batch_size % self.num_minibatches:
            raise ValueError(
                f"num_envs x num_steps = {self.batch_size} must be divisible by "
                f"num_minibatches = {self.num_minibatches}"
            )

    @property
    def batch_size(self) -> int:
        """Transitions that an update learns from."""
        return self.frames_per_update

    def check_whole_rollouts(self) -> None:
        """Raise `ValueError` if minibatches cannot hold whole rollouts."""
        if self.num_envs % max(self.num_minibatches, 1):
            raise ValueError(
                f"num_envs = {self.num_envs} must be divisible by num_minibatches = "
                f"{self.num_minibatches}: with recurrent_size, minibatches hold whole rollouts"
            )

    def order(self, key: jax.Array, *, whole_rollouts: bool) -> jax.Array:
        """Return the rows of every minibatch [gradient steps, rows] int32.

        Every pass visits all rows once, in a new random order. `whole_rollouts` keeps the steps of
        an environment together.
        """
        length = self.num_steps if whole_rollouts else 1
        steps, count = self.update_epochs * self.num_minibatches, self.batch_size // length
        order = permutations(key, self.update_epochs, count).reshape(steps, 1, -1)
        return (count * jnp.arange(length)[None, :, None] + order).reshape(steps, -1)
