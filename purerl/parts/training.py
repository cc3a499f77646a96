"""Training from scratch, the same for every learner, and its sizes."""

from dataclasses import dataclass
from typing import Annotated, Any, Self

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Interval
from flax import struct

from purerl.fast.draws import with_fast_draws
from purerl.types import Context, EnvParams, Hyperparams, Learner, MetaParams, TrainResult


@dataclass(frozen=True)
class BaseConfig:
    """Sizes of the training of one agent in parallel environments: the first static settings.

    Raises:
        ValueError: if no update fits.
    """

    total_timesteps: Annotated[int, Gt(0)] = 500_000
    """environment steps of one agent, rounded down to whole updates"""
    num_envs: Annotated[int, Gt(0)] = 4
    """parallel environments of one agent"""
    num_steps: Annotated[int, Gt(0)] = 128
    """steps in every environment between two updates"""

    def __post_init__(self) -> None:
        if not 0 < self.frames_per_update <= self.total_timesteps:
            raise ValueError(
                f"total_timesteps = {self.total_timesteps} must be at least one update, "
                f"num_envs x num_steps = {self.frames_per_update}, which must be above 0"
            )

    @property
    def frames_per_update(self) -> int:
        """Environment steps of one update."""
        return self.num_envs * self.num_steps

    @property
    def num_updates(self) -> int:
        """Updates of a whole training run."""
        return self.total_timesteps // self.frames_per_update

    @property
    def batch_size(self) -> int:
        """Transitions that a learning step uses; by default all of an update."""
        return self.frames_per_update


class BaseHyperparams(struct.PyTreeNode):
    """Hyperparameters of the optimizers and value losses: the first ones of a learner."""

    learning_rate: Annotated[float, Ge(0)] = 2.5e-4
    """step size at the start"""
    final_learning_rate: Annotated[float, Interval(ge=0, le=1)] = 1.0
    """step size at the end, as a fraction of learning_rate; 1 keeps it constant"""
    annealing_steps: Annotated[float, Gt(0)] | None = None
    """environment steps until final_learning_rate is reached; by default the whole training"""
    max_grad_norm: Annotated[float, Gt(0)] = 0.5
    """limit of the gradient's global norm; .inf for none"""
    adam_epsilon: Annotated[float, Gt(0)] = 1e-5
    """added to the root of the second moment of Adam and its variants"""
    weight_decay: Annotated[float, Ge(0)] = 1e-2
    """share of the parameters, times the learning rate, that adamw and lion subtract in a step"""
    momentum: Annotated[float, Interval(ge=0, lt=1)] = 0.9
    """share of the previous step that the optimizer momentum adds"""
    rmsprop_decay: Annotated[float, Interval(ge=0, lt=1)] = 0.99
    """decay of RMSProp's second moment"""
    rmsprop_epsilon: Annotated[float, Gt(0)] = 1e-8
    """added to RMSProp's second moment"""
    value_clip_epsilon: Annotated[float, Gt(0)] = 0.2
    """largest move of a prediction under clipped_squared"""
    huber_delta: Annotated[float, Gt(0)] = 1.0
    """error at which huber turns from squared to linear"""
    loss_slope: float = 0.1
    """slope of sloped_squared at zero error; predictions settle that far below their targets"""
    expectile: Annotated[float, Interval(gt=0, lt=1)] = 0.7
    """weight of too low predictions under expectile, where too high ones have 1 minus it"""

    def random_play(self) -> Self:
        """Return hyperparameters under which the initial policy never changes.

        It is almost uniform in the networks of purerl.
        """
        return self.replace(learning_rate=0.0)


def update(learner: Learner, state: Any, *settings: Any) -> tuple[Any, Any, Any]:
    """Return what `learner.update` does, the plain equivalent; its draws are fast."""
    return with_fast_draws(learner.update)(state, *settings)


def train(
    learner: Learner,
    key: jax.Array,
    hyperparams: Hyperparams,
    meta_params: MetaParams,
    env_params: EnvParams,
    num_updates: jax.Array | int | None = None,
    evaluations: Any = None,
) -> TrainResult:
    """Train one agent from scratch; metrics are reduced inside the loop, to one per update.

    Learners have this function as their method `train`, and `num_updates` in their states.

    `num_updates` [] int32 is the length of this training, at most `config.num_updates`, which is
    the default. It is traced, so one program trains agents for different lengths, and progress and
    annealing follow it. Under `vmap`, agents with lengths of their own all cost as much as the
    longest. Sums and metrics of updates after the end are zero.

    `evaluations` are `purerl.parts.evaluation.GreedyEvaluations` during this training, or None.
    """

    def step(state):
        state, *output = update(learner, state, hyperparams, meta_params, env_params)
        return state, tuple(output)

    state = learner.init(key, hyperparams, meta_params, env_params)
    most = learner.config.num_updates
    if num_updates is None and evaluations is None:
        state, (sums, metrics) = jax.lax.scan(lambda state, _: step(state), state, length=most)
        return TrainResult(state, sums, metrics)

    def write_step(index, carry):
        state, written = carry
        state, new = step(state)
        return state, jax.tree.map(lambda rows, row: rows.at[index].set(row), written, new)

    length = jnp.asarray(most if num_updates is None else num_updates, jnp.int32)
    if num_updates is not None:
        state = state.replace(num_updates=length)
    _, shapes = jax.eval_shape(step, state)
    empty = jax.tree.map(lambda leaf: jnp.zeros((most, *leaf.shape), leaf.dtype), shapes)
    if evaluations is None:
        carry, returns = jax.lax.fori_loop(0, length, write_step, (state, empty)), None
    else:
        of_agent = learner, key, env_params
        carry, returns = evaluations.along(write_step, (state, empty), length, *of_agent)
    state, (sums, metrics) = carry
    return TrainResult(state, sums, metrics, returns)


def length(config: Any, state: Any) -> Any:
    """Return the number of updates of an agent's training: its own, or that of the config."""
    return config.num_updates if state.num_updates is None else state.num_updates


def context(
    config: Any, state: Any, hyperparams: Hyperparams, done: jax.Array, *, phases: int = 1
) -> Context:
    """Return the context of the slots after `done` [] int32 phases, of which an update has some.

    Progress is 0 in the first phase, below 1 in the last, and 1 after the end.
    """
    num_updates = length(config, state)
    whole = jnp.asarray(num_updates * phases, jnp.float32)
    return Context(
        hyperparams,
        progress=jnp.minimum(done.astype(jnp.float32) / whole, 1.0),
        num_updates=num_updates,
        frames=done.astype(jnp.float32) * (config.frames_per_update // phases),
    )
