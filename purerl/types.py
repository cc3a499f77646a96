"""The glossary: the data that learners pass around and the signatures of their replaceable parts.

Axes are named once here and used in every docstring:
`T` steps of a rollout, `N` parallel environments of one agent, `B = T * N`, `U` updates of a run.
No function in `purerl` has an axis for agents: a population is made by `jax.vmap` at the call.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import optax
from flax import struct

MetaParams = Any
"""Parameters of the learned parts: any pytree; hand-written parts ignore it."""
Hyperparams = Any
"""The `Hyperparams` struct of a learner: scalars, all traced.

Its method `random_play()` returns settings under which the learner always acts at random."""
EnvParams = Any
"""The parameters of an environment: a struct of scalars, all traced."""


class Context(struct.PyTreeNode):
    """What a slot gets to know besides its own arguments: the settings, and where training is.

    Fields may be added. What a slot does not look at costs nothing, as XLA leaves it out. The
    defaults are for a slot that is looked at outside of training, such as for a picture.
    """

    hyperparams: Hyperparams
    progress: jax.Array | float = 0.0
    """[] share of the whole training that is done, in [0, 1]; as of the update (DQN: the phase)"""
    num_updates: jax.Array | int = 1
    """updates of the whole training; traced where agents live for different times"""
    frames: jax.Array | float = 0.0
    """[] environment steps done, a float: they may exceed an int32"""
    epoch: jax.Array | None = None
    """[] share of the update's epochs that is done, in [0, 1), where there are epochs"""
    minibatch: jax.Array | None = None
    """[] share of the epoch's minibatches that is done, in [0, 1), where there are minibatches"""
    key: jax.Array | None = None
    """for random numbers of the slot, another one for every gradient step; None in Q-learning.

    A loss sees the same key at every sample of a minibatch."""
    dormancy: Any = None
    """how active the unit is that a parameter feeds, for every parameter; see
    `purerl.parts.parameters.dormancy`"""
    component: Any = None
    """a learned part's own hyperparameters, where it has any; a learner leaves them alone"""

    def extra_args(self) -> dict[str, Any]:
        """Return what each update of an optimizer gets to know, as optax's extra arguments."""
        return {
            "progress": self.progress,
            "frames": self.frames,
            "epoch": self.epoch,
            "minibatch": self.minibatch,
            "key": self.key,
            "dormancy": self.dormancy,
        }


ValueLoss = Callable[[MetaParams, Context, jax.Array, jax.Array, jax.Array], jax.Array]
"""`(meta_params, context, prediction, target, old_prediction) -> loss`, all four scalars.

`old_prediction` is what the network predicted when the data were collected."""
PolicyLoss = Callable[[MetaParams, Context, jax.Array, jax.Array], jax.Array]
"""`(meta_params, context, log_ratio, advantage) -> loss`, all three scalars."""
MakeOptimizer = Callable[[MetaParams, Context], optax.GradientTransformationExtraArgs]
"""`(meta_params, context) -> optimizer`, made for every update of the learner.


Every `optimizer.update(gradients, state, params, **context.extra_args())` says where in training
the gradient step is, and what the network's units do; an optimizer of optax that takes no extra
arguments will do as well."""

Schedule = Callable[[MetaParams, Context], Hyperparams]
"""`(meta_params, context) -> hyperparams` of one update, of the same structure as the context's."""


Channel = Callable[[MetaParams, jax.Array], jax.Array]
"""`(meta_params, observation) -> message` [width] in [-1, 1], for `purerl.envs.Talking`."""


class Transition(NamedTuple):
    """What happened in one step of every environment; a rollout stacks them to [T, N, ...]."""

    obs: jax.Array
    """[N, *obs_shape] float32, what the agent saw (raw, before any normalisation)."""
    action: jax.Array
    """[N] int32, or [N, action_dim] float32 before clipping to the action space."""
    log_prob: jax.Array
    """[N] log-probability (density) of `action` under the policy that chose it."""
    reward: jax.Array
    """[N] float32."""
    terminated: jax.Array
    """[N] bool: the episode ended in a terminal state, whose value is zero."""
    truncated: jax.Array
    """[N] bool: the episode was cut by a time limit; both flags can be true."""
    final_obs: jax.Array
    """[N, *obs_shape] the observation after the action and before any reset."""
    legal: jax.Array | None = None
    """[N, num_actions] bool, which actions were legal; None where all always are."""
    memory: jax.Array | None = None
    """[N, M] what a recurrent agent remembered when it saw `obs`."""


PREDICTION_SIZE = 8
"""Numbers that an agent of `purerl.lpg` predicts in every state."""


class Trajectory(NamedTuple):
    """What an update rule sees of a rollout: neither observations nor actions."""

    reward: jax.Array
    """[T, N] float32."""
    terminated: jax.Array
    """[T, N] bool."""
    truncated: jax.Array
    """[T, N] bool; both flags can be true."""
    log_prob: jax.Array
    """[T, N] log-probability of the action."""
    prediction: jax.Array
    """[T, N, PREDICTION_SIZE] what the agent predicted where it acted: numbers that a rule gives a
    meaning, as logits of a distribution or the first one as a value."""
    next_prediction: jax.Array
    """[T, N, PREDICTION_SIZE] the same after the action, before any reset."""


class Targets(NamedTuple):
    """What an update rule wants of an agent, which then takes one gradient step towards it."""

    policy: jax.Array
    """[T, N] weights of -log pi(action): positive ones make an action likelier."""
    prediction: jax.Array
    """[T, N, PREDICTION_SIZE] logits of the distribution that predictions are to become, or [T, N]
    values that the first number of predictions is to become."""
    entropy: jax.Array | float = 0.0
    """[] weight of the policy's entropy, which is to grow"""


UpdateRule = Callable[[MetaParams, Context, Trajectory], Targets]
"""`(meta_params, context, trajectory) -> targets`, of a whole rollout."""


class EpisodeSums(NamedTuple):
    """Sums over the episodes that finished (and the steps that were taken) in a stretch of time.

    Sums, not means, so that stretches can be added; see `mean_return`.
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
    """What `train` returns."""

    state: Any
    """The learner's final state; `update` continues from it."""
    episodes: EpisodeSums
    """Each field [U]: one sum per update."""
    metrics: dict[str, jax.Array]
    """Each [U]: losses and diagnostics, means over the minibatches of an update."""


Train = Callable[[jax.Array, Hyperparams, MetaParams, EnvParams], TrainResult]
"""`(key, hyperparams, meta_params, env_params) -> result`: one agent, trained from scratch."""


class Learner(Protocol):
    """A learner with its static parts bound: what the outer loops need to know of PPO, DQN, ...

    `train(key, ...)` equals `init(key, ...)` followed by `config.num_updates` times `update`.
    """

    @property
    def config(self) -> Any:
        """What is static.

        At least `num_updates`, `frames_per_update` (environment steps of an update) and
        `batch_size` (transitions that a learning step walks over: chunks are sized by it).
        """

    @property
    def env(self) -> Any:
        """The environment."""

    def init(
        self, key: jax.Array, hyperparams: Any, meta_params: MetaParams, env_params: EnvParams
    ) -> Any:
        """Return the state before the first update."""

    def update(
        self, state: Any, hyperparams: Any, meta_params: MetaParams, env_params: EnvParams
    ) -> tuple[Any, EpisodeSums, dict[str, jax.Array]]:
        """Collect one batch of experience and learn from it."""

    def train(
        self, key: jax.Array, hyperparams: Any, meta_params: MetaParams, env_params: EnvParams
    ) -> TrainResult:
        """Train one agent from scratch."""

    def value_targets(
        self, state: Any, hyperparams: Any, env_params: EnvParams
    ) -> tuple[jax.Array, jax.Array]:
        """Return predictions [B] and targets [B] as the value loss sees them in this state."""

    def policy(self, state: Any) -> Any:
        """Return the part of the state that acting needs (a pytree that can be saved)."""

    def act(
        self,
        policy: Any,
        key: jax.Array,
        obs: jax.Array,
        *,
        greedy: bool,
        env_params: EnvParams = None,
        legal: jax.Array | None = None,
    ) -> jax.Array:
        """Return the action for one observation; `legal` where the environment has masks."""
