"""The glossary: data that learners exchange, and signatures of their replaceable parts.

Axes: `T` steps of a rollout, `N` environments of one agent, `B = T * N`, `U` updates of a run.
No function in `purerl` has an axis for agents: a population is made by `jax.vmap` at the call.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import optax
from flax import struct

PyTree = Any
"""Nested containers of arrays: parameters, states, batches."""
Environment = Any
"""A gymnax environment, or an adapter with its interface (`purerl.envs`)."""
MetaParams = PyTree
"""Parameters of the learned parts: any pytree; hand-written parts ignore it."""
Hyperparams = PyTree
"""A learner's struct of traced scalars; its `random_play()` returns those that never learn."""
EnvParams = PyTree
"""The parameters of an environment: a struct of scalars, all traced."""
Observations = Literal["auto", "flat", "raw", "index"]
"""What an environment shows, see `purerl.envs.make`."""


class SettingError(ValueError):
    """A static setting with which no environment works; begins `name = value: `."""


class Context(struct.PyTreeNode):
    """Input of every slot in addition to its own arguments: settings and progress of training.

    Unused fields are free, because XLA removes them. The defaults serve calls outside of training.
    """

    hyperparams: Hyperparams
    progress: jax.Array | float = 0.0
    """[] share of the updates (DQN: the phases) that precede this one, in [0, 1)"""
    num_updates: jax.Array | int = 1
    """updates of the whole training; traced if agents have lengths of their own"""
    frames: jax.Array | float = 0.0
    """[] environment steps done, a float: they may exceed an int32"""
    epoch: jax.Array | None = None
    """[] share of the update's epochs that is done, in [0, 1), where there are epochs"""
    minibatch: jax.Array | None = None
    """[] share of the epoch's minibatches that is done, in [0, 1), where there are minibatches"""
    key: jax.Array | None = None
    """random key, different in every gradient step and the same for all slots and samples of one;
    None outside of gradient steps and in Q-learning"""
    observations: PyTree = None
    """[B, *obs_shape] of the minibatch, in gradient steps of PPO, DQN and PQN"""
    network: Any = struct.field(pytree_node=False, default=None)
    """the network of PPO, DQN and PQN in gradient steps: a flax module, or
    `purerl.parts.own_network` around one of the user's"""
    num_epochs: int = 1
    """passes over the data of an update, where there are epochs"""
    num_minibatches: int = 1
    """gradient steps of an epoch, where there are epochs"""


def named(*functions: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """Return functions by their names."""
    return {each.__name__: each for each in functions}


@dataclass(frozen=True, eq=False)
class Slot:
    """A function of a learner that can be replaced, by a hand-written or a learned one.

    The function's first two arguments are meta_params and context.

    Raises:
        ValueError: if it has no function, or is compared with an unknown one.
    """

    name: str
    """the argument of the learner that takes the function"""
    functions: Mapping[str, Callable[..., Any]]
    """hand-written functions by the names that settings use, the reference first"""
    inputs: tuple[str, ...] = ()
    """names of its other arguments if they are scalars, as its result is; formulas and programs are
    functions of them, and a learner may differentiate by the first"""
    arguments: tuple[str, ...] = ()
    """names of its other arguments if they are no scalars"""
    contenders: tuple[str, ...] = ()
    """names of the functions that a learned one is compared with, the reference first; all by
    default"""
    ranges: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """search spaces of single functions, which replace or extend the common space"""
    returns_numbers: bool = False
    """whether a function without scalar inputs returns a tree of numbers"""

    def __post_init__(self) -> None:
        if not self.functions:
            raise ValueError(f"slot {self.name!r}: functions must have a hand-written one")
        if unknown := [name for name in self.contenders if name not in self.functions]:
            known = ", ".join(self.functions)
            raise ValueError(
                f"slot {self.name!r}: contenders: {unknown[0]!r} must be one of {known}"
            )

    def comparing(self, *names: str) -> "Slot":
        """Return the slot with other contenders."""
        return replace(self, contenders=names)

    @property
    def compared(self) -> tuple[str, ...]:
        """Names of the contenders, the reference first."""
        return self.contenders or tuple(self.functions)


ValueLoss = Callable[[MetaParams, Context, jax.Array, jax.Array, jax.Array], jax.Array]
"""`(meta_params, context, prediction, target, old_prediction) -> loss`, all four scalars.

`old_prediction` is the prediction of the network that collected the data."""
PolicyLoss = Callable[[MetaParams, Context, jax.Array, jax.Array], jax.Array]
"""`(meta_params, context, log_ratio, advantage) -> loss`, all three scalars."""
MakeOptimizer = Callable[[MetaParams, Context], optax.GradientTransformationExtraArgs]
"""`(meta_params, context) -> optimizer`, made for every update of the learner.

The learner calls `optimizer.update(gradients, state, params, context=context)` with the context of
the gradient step. Optimizers of optax that take no extra arguments work, too."""

Schedule = Callable[[MetaParams, Context], Hyperparams]
"""`(meta_params, context) -> hyperparams` of one update, of the same structure as the context's."""


class Rollout(NamedTuple):
    """Input of the slot `targets`: a rollout without observations and actions."""

    reward: jax.Array
    """[T, N] float32, normalised if the learner normalises rewards."""
    value: jax.Array
    """[T, N] prediction that is to move towards the target: V(s), in Q-learners Q(s, a)."""
    next_value: jax.Array
    """[T, N] value of the state that the action led to, before any reset: V(s'), in Q-learners
    max_a Q(s', a). A terminal state's has no meaning."""
    terminated: jax.Array
    """[T, N] bool."""
    truncated: jax.Array
    """[T, N] bool; both flags can be true."""
    log_prob: jax.Array | None = None
    """[T, N] log-probability of the action under the policy that chose it; None in Q-learners."""
    ratio: jax.Array | None = None
    """[T, N] probability of the action under the policy to evaluate, divided by that under the
    policy that chose it; None where both are the same, as in PPO. The policy to evaluate is the
    greedy one in Q-learners."""

    @property
    def done(self) -> jax.Array:
        """[T, N] bool: the episode ended with this step, terminated or truncated."""
        return jnp.logical_or(self.terminated, self.truncated)


class Estimates(NamedTuple):
    """Output of the slot `targets`, float32."""

    advantage: jax.Array
    """[T, N] of the actions, before any normalisation; Q-learners ignore it."""
    target: jax.Array
    """[T, N] of the values."""


TargetEstimator = Callable[[MetaParams, Context, Rollout], Estimates]
"""`(meta_params, context, rollout) -> estimates`: the slot `targets`, of a whole rollout."""


class Transition(NamedTuple):
    """One step of every environment; a rollout stacks them to [T, N, ...]."""

    obs: jax.Array
    """[N, *obs_shape] float32, raw, before any normalisation."""
    action: jax.Array
    """[N] int32, or [N, action_dim] float32 before clipping to the action space."""
    log_prob: PyTree
    """[N] log-probability (density) of `action` under the policy that chose it; None in a replay
    memory."""
    reward: jax.Array
    """[N] float32."""
    terminated: jax.Array
    """[N] bool: the episode ended in a terminal state, which has value zero."""
    truncated: jax.Array
    """[N] bool: the episode was cut by a time limit; both flags can be true."""
    final_obs: jax.Array
    """[N, *obs_shape] the observation after the action and before any reset."""
    memory: PyTree = None
    """[N, ...] memory of a recurrent agent when it saw `obs`."""
    kept: PyTree = None
    """[N, ...] outputs of the network at `obs` that a learner reads again, such as values."""

    @property
    def done(self) -> jax.Array:
        """[N] bool: the episode ended with this step, terminated or truncated."""
        return jnp.logical_or(self.terminated, self.truncated)


class EpisodeSums(NamedTuple):
    """Sums over the episodes that finished and the steps taken in a period of training.

    Sums, not means, so that periods can be added; see `mean_return`.
    """

    episodes: jax.Array
    """number of finished episodes, float32."""
    returns: jax.Array
    """sum of their undiscounted returns."""
    lengths: jax.Array
    """sum of their lengths in steps."""
    rewards: jax.Array
    """sum of the rewards of all steps, of finished and unfinished episodes."""
    steps: jax.Array
    """number of environment steps, float32."""


class TrainResult(struct.PyTreeNode):
    """Result of `train`."""

    state: PyTree
    """The learner's final state; `update` continues from it."""
    episodes: EpisodeSums
    """Each field [U]: one sum per update."""
    metrics: dict[str, jax.Array]
    """Each [U]: losses and diagnostics, means over the minibatches of an update."""
    evaluations: jax.Array | None = None
    """[M] mean returns of the evaluations of the greedy policy, if there are any."""


Train = Callable[[jax.Array, Hyperparams, MetaParams, EnvParams], TrainResult]
"""`(key, hyperparams, meta_params, env_params) -> result`: one agent, trained from scratch."""


class Learner(Protocol):
    """A learner with its static parts bound, as the outer loops use PPO, DQN, ...

    `train(key, ...)` equals `init(key, ...)` followed by `config.num_updates` times `update`;
    `train = purerl.parts.training.train` also takes a traced length and evaluations.
    Two methods are optional. A learner with a memory has `begin() -> memory`, the memory at the
    start of an episode. One with the slot `value_loss` has `value_targets(state, hyperparams,
    env_params)`, which returns predictions [B] and targets [B] as the value loss sees them; with
    the slot `targets` it also takes meta_params.
    """

    @property
    def config(self) -> Any:
        """Static settings.

        At least `num_updates`, `frames_per_update` (environment steps of an update) and
        `batch_size` (transitions that a learning step uses, by which chunks are sized).
        """

    @property
    def env(self) -> Any:
        """The environment."""

    def init(
        self, key: jax.Array, hyperparams: PyTree, meta_params: MetaParams, env_params: EnvParams
    ) -> PyTree:
        """Return the state before the first update."""

    def update(
        self, state: PyTree, hyperparams: PyTree, meta_params: MetaParams, env_params: EnvParams
    ) -> tuple[Any, EpisodeSums, dict[str, jax.Array]]:
        """Collect one batch of experience and learn from it."""

    def train(
        self, key: jax.Array, hyperparams: PyTree, meta_params: MetaParams, env_params: EnvParams
    ) -> TrainResult:
        """Train one agent from scratch."""

    def policy(self, state: PyTree) -> PyTree:
        """Return the policy parameters: a pytree that can be saved."""

    def action_distribution(
        self, policy: PyTree, obs: jax.Array, memory: PyTree = None
    ) -> tuple[PyTree, PyTree]:
        """Return the distribution of actions at one observation, and the next memory.

        The distribution has `sample(key)` and `mode(key)`, and for continuous actions
        `bounded(action, space)`; see `purerl.parts.policies`. Call it through `purerl.acting`.
        """


class LearnerEntry(NamedTuple):
    """A learner with its settings and slots, as `metaevo` builds, evolves and compares it.

    A learner of one's own has its own entry: see examples/reinforce.py.
    """

    config: type
    """static settings, a frozen dataclass"""
    hyperparams: type
    """traced settings, a `flax.struct.PyTreeNode` of numbers"""
    make: Callable[..., Learner]
    """`(config, env, **functions) -> Learner`, with functions by the names of slots"""
    slots: tuple[Slot, ...] = ()
    """the functions that can be replaced"""
    observations: Observations = "auto"
    """observations that the learner needs"""

    def make_train(self, config: Any, env: Environment, **functions: Any) -> Train:
        """Return `train(key, hyperparams, meta_params, env_params) -> TrainResult` for one agent.

        It is `purerl.ppo.make_train` and so on. `functions` fill slots, by their names.
        """
        return self.make(config, env, **functions).train

    def slot(self, name: str) -> Slot | None:
        """Return a slot by its name, if the learner has it."""
        return next((slot for slot in self.slots if slot.name == name), None)
