"""Several passes over a batch of rollouts, in minibatches."""

from dataclasses import dataclass
from typing import Annotated

import jax
from annotated_types import Gt, Interval

from purerl.fast.shuffling import minibatch_order
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
        """Check that minibatches fill a batch."""
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
        """Return the rows of every minibatch, [gradient steps, rows], in random order.

        Args:
            key: of the orders; each pass has its own.
            whole_rollouts: keep the steps of an environment together.
        """
        return minibatch_order(
            key,
            epochs=self.update_epochs,
            num_minibatches=self.num_minibatches,
            batch_size=self.batch_size,
            length=self.num_steps if whole_rollouts else 1,
        )
