"""A replay memory, a ring of transitions in the learner's state; learning in phases; priorities.

Transitions are stored in the order of time, one step of all N environments after another, so the
successor of row `i` in the same environment is row `i + N`. The ring holds single steps; n-step
returns are computed when their rows are drawn.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Gt, Interval

from purerl.fast.branches import cond
from purerl.parts.rollouts import Environments, step, zero_sums
from purerl.parts.training import BaseConfig
from purerl.types import Environment, EnvParams, EpisodeSums, Hyperparams, MetaParams, Transition

FAN_OUT = 16
"""Children per node of the priority tree: few levels, each summed by vector instructions."""
PRIORITIES = 1e-15, 1e15
"""Bounds of a priority. Sums of priorities and importance weights then stay within float32."""
Act = Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]
"""`(key, observations [N, ...]) -> actions to store, actions to take`, both [N, ...]"""


@dataclass(frozen=True)
class ReplayConfig(BaseConfig):
    """Static settings of a learner that collects and learns in phases.

    Raises:
        ValueError: if the counts do not divide each other, or if a minibatch would have to be
            drawn from fewer transitions than it holds.
    """

    train_interval: Annotated[int, Gt(0)] = 10
    """environment steps, of all environments together, between two learning phases"""
    batch_size: Annotated[int, Gt(0)] = 128
    """transitions of a minibatch"""
    buffer_size: Annotated[int, Gt(0)] = 10_000
    """transitions that the replay memory holds, rounded down to a multiple of train_interval"""
    learning_starts: Annotated[int, Gt(0)] = 10_000
    """environment steps before the first learning phase"""
    n_step: Annotated[int, Gt(0)] = 1
    """rewards in a target before it is bootstrapped"""
    store_observations: Literal["float32", "float16", "uint8"] = "float32"
    """dtype of stored observations; uint8 is exact for whole numbers up to 255"""
    gradient_steps: Annotated[int, Interval(gt=0, le=1_000_000)] = 1
    """minibatches of a learning phase"""

    def __post_init__(self) -> None:
        super().__post_init__()
        interval, starts, total = self.train_interval, self.learning_starts, self.total_timesteps
        waiting = self.layout.waiting_rows
        batch = f"batch_size = {self.batch_size}"
        if waiting:
            batch += f" and (n_step - 1) x num_envs = {waiting} that wait for their successors"
        needed = self.batch_size + waiting
        checks = {
            f"train_interval = {interval} must be a multiple of num_envs = {self.num_envs}": (
                interval % self.num_envs == 0
            ),
            f"num_envs x num_steps = {self.frames_per_update} must be a multiple of "
            f"train_interval = {interval}": self.frames_per_update % interval == 0,
            f"buffer_size = {self.buffer_size}, in multiples of train_interval = {interval}, "
            f"must hold at least {batch}": self.layout.capacity >= max(needed, interval + waiting),
            f"learning_starts = {starts} must be at least {batch}": starts >= needed,
            f"learning_starts = {starts} is beyond total_timesteps = {total}": starts <= total,
        }
        for complaint, holds in checks.items():
            if not holds:
                raise ValueError(complaint)

    @property
    def layout(self) -> "Layout":
        """Layout of the replay memory, which is written once a phase."""
        return Layout(self.buffer_size, self.train_interval, self.num_envs, self.n_step)

    @property
    def phases_per_update(self) -> int:
        """Phases of one update."""
        return self.frames_per_update // self.train_interval


def check_storage(env: Environment, dtype: str) -> None:
    """Check that the dtype of stored observations represents those of an environment.

    uint8 needs whole numbers from 0 to 255. The bounds of the observation space are checked, and
    the first observation of an episode.

    Raises:
        ValueError: if the dtype is uint8, and observations do not fit.
    """
    if dtype != "uint8":
        return
    low, high = _bounds(env)
    fits = 0 <= low <= high <= 255
    if fits:
        with jax.ensure_compile_time_eval():
            obs, _ = env.reset(jax.random.key(0), env.default_params)
            fits = bool(jnp.all(obs == obs.astype(jnp.uint8)))
    if not fits:
        raise ValueError(
            f"store_observations = uint8: {env.name} has observations that are not whole numbers "
            "from 0 to 255; set float32 or float16"
        )


def _bounds(env: Environment) -> tuple[float, float]:
    """Return the bounds of observations; an adapter without bounds has the wrapped environment's.

    The dtypes bool and uint8 have their own.
    """
    space = env.observation_space(env.default_params)
    if getattr(space, "dtype", None) in (jnp.bool_, jnp.uint8):
        return 0.0, 255.0
    low = float(np.min(getattr(space, "low", -np.inf)))
    high = float(np.max(getattr(space, "high", np.inf)))
    if np.isinf([low, high]).all() and hasattr(env, "env"):
        return _bounds(env.env)
    return low, high


class Returns(NamedTuple):
    """n-step returns, cut short by the end of an episode."""

    obs: jax.Array
    """[B, *obs_shape] float32."""
    action: jax.Array
    """[B] int32, or [B, action_dim] float32."""
    reward: jax.Array
    """[B] discounted sum of the rewards."""
    discount: jax.Array
    """[B] factor of the value of `final_obs`: zero after termination."""
    final_obs: jax.Array
    """[B, *obs_shape] float32, from which to bootstrap."""


class Layout(NamedTuple):
    """Static layout of a ring. Time is counted in writes, which all have the same size."""

    buffer_size: int
    """rows, rounded down to whole writes"""
    train_interval: int
    """rows of a write, a multiple of `num_envs`"""
    num_envs: int
    """N, the distance between successive steps of an environment"""
    n_step: int
    """rewards in a return"""

    @property
    def writes(self) -> int:
        """Writes that the ring holds before it starts over."""
        return self.buffer_size // self.train_interval

    @property
    def capacity(self) -> int:
        """C, the rows of the ring."""
        return self.writes * self.train_interval

    @property
    def waiting_rows(self) -> int:
        """The newest rows, which still lack their n - 1 successors and cannot be drawn."""
        return (self.n_step - 1) * self.num_envs

    def drawable(self, written: jax.Array) -> jax.Array:
        """Return the number of rows that can be drawn after `written` writes [] int32."""
        return jnp.minimum(written, self.writes) * self.train_interval - self.waiting_rows

    def empty(self, obs: jax.Array, dtype: str, action: jax.Array | int = 0) -> Transition:
        """Return a ring [C, ...] without transitions, for arrays like the examples.

        Examples are an observation [*obs_shape] and an action; observations are stored in `dtype`.
        """
        example = jnp.asarray(action)
        observations = jnp.zeros((self.capacity, *obs.shape), dtype)
        flags = jnp.zeros(self.capacity, bool)
        return Transition(
            obs=observations,
            action=jnp.zeros((self.capacity, *example.shape), example.dtype),
            log_prob=None,
            reward=jnp.zeros(self.capacity),
            terminated=flags,
            truncated=flags,
            final_obs=observations,
        )

    def write(self, ring: Transition, steps: Transition, written: jax.Array) -> Transition:
        """Overwrite the oldest rows with `train_interval` new ones, after `written` [] writes."""
        position = written % self.writes * self.train_interval
        return jax.tree.map(
            lambda rows, new: jax.lax.dynamic_update_slice_in_dim(
                rows, new.astype(rows.dtype), position, axis=0
            ),
            ring,
            steps,
        )

    def draw_uniformly(self, key: jax.Array, written: jax.Array, count: int) -> jax.Array:
        """Draw rows [count] with equal probability, with replacement."""
        # The remainder of 32 bits: probabilities of rows differ by at most C / 2^32.
        age = jax.random.bits(key, (count,)) % self.drawable(written).astype(jnp.uint32)
        oldest = jnp.where(written > self.writes, written % self.writes, 0) * self.train_interval
        return (oldest + age.astype(jnp.int32)) % self.capacity

    def draw(
        self,
        key: jax.Array,
        written: jax.Array,
        priorities: "Priorities | None",
        count: int,
        *,
        exponent: jax.Array | float,
    ) -> tuple[jax.Array, jax.Array]:
        """Draw rows [count] by their priorities, or uniformly without priorities.

        Returns:
            The rows, and the weights [count] of their losses, at most 1: importance
            to the power of `exponent` (Schaul et al. 2016, section 3.4).
        """
        if priorities is None:
            return self.draw_uniformly(key, written, count), jnp.ones(count)
        rows, probability = draw(priorities, key, count)
        weight = jnp.power(self.drawable(written) * probability, -exponent)
        return rows, weight / jnp.max(weight)

    def admit(self, priorities: "Priorities | None", written: jax.Array) -> "Priorities | None":
        """Assign the largest priority so far to the rows that write number `written` completes."""
        if priorities is None:
            return None
        age = jnp.arange(-self.waiting_rows, self.train_interval, dtype=jnp.int32)
        complete = age < self.train_interval - self.waiting_rows
        exists = jnp.logical_or(written >= self.writes, written * self.train_interval + age >= 0)
        values = jnp.where(jnp.logical_and(complete, exists), priorities.largest, 0.0)
        position = written % self.writes * self.train_interval
        return set_priorities(priorities, (position + age) % self.capacity, values)

    def read(self, ring: Transition, rows: jax.Array, gamma: jax.Array | float) -> Returns:
        """Return the n-step returns that begin at the given rows [B].

            R = r_0 + gamma r_1 + ... + gamma^(m-1) r_(m-1),  discount = gamma^m (1 - terminated)

        m is n, or less if the episode ended before (terminated or truncated). After a truncation,
        the return is bootstrapped from the last observation of the episode.
        """
        ahead = self.num_envs * jnp.arange(self.n_step, dtype=jnp.int32)
        successors = (rows[:, None] + ahead[None, :]) % self.capacity  # [B, n]
        terminated = ring.terminated[successors]
        done = jnp.logical_or(terminated, ring.truncated[successors])
        counts = jnp.cumsum(done, axis=1) == done.astype(jnp.int32)  # no end before this step
        powers = jnp.power(jnp.asarray(gamma, jnp.float32), jnp.arange(self.n_step + 1))
        rewards = powers[None, :-1] * ring.reward[successors]
        last = jnp.sum(counts, axis=1)[:, None] - 1  # m - 1, [B, 1]
        end = jnp.take_along_axis(terminated, last, axis=1)[:, 0]
        last_row = jnp.take_along_axis(successors, last, axis=1)[:, 0]
        return Returns(
            obs=ring.obs[rows].astype(jnp.float32),
            action=ring.action[rows],
            reward=jnp.sum(jnp.where(counts, rewards, 0.0), axis=1),
            discount=jnp.where(end, 0.0, powers[last[:, 0] + 1]),
            final_obs=ring.final_obs[last_row].astype(jnp.float32),
        )


def collect(
    env: Environment,
    env_params: EnvParams,
    act: Act,
    key: jax.Array,
    envs: Environments,
    sums: EpisodeSums,
    layout: Layout,
) -> tuple[Environments, EpisodeSums, Transition]:
    """Step N environments until there are the transitions of a write.

    Finished episodes are added to the sums, each [N].
    """

    def one_step(carry, key):
        envs, sums = carry
        action_key, env_key = jax.random.split(key)
        stored, taken = act(action_key, envs.obs)
        env_keys = jax.random.split(env_key, layout.num_envs)
        after, sums, outcome = step(env, env_params, env_keys, envs, sums, taken)
        return (after, sums), Transition(envs.obs, stored, None, *outcome)

    keys = jax.random.split(key, layout.train_interval // layout.num_envs)
    (envs, sums), steps = jax.lax.scan(one_step, (envs, sums), keys)
    rows = jax.tree.map(lambda x: x.reshape(layout.train_interval, *x.shape[2:]), steps)
    return envs, sums, rows


def run_phases(
    learner: Any,
    metrics: Sequence[str],
    state: Any,
    hyperparams: Hyperparams,
    meta_params: MetaParams,
    env_params: EnvParams,
) -> tuple[Any, EpisodeSums, dict[str, jax.Array]]:
    """Go through the phases of one update: collect, learn, collect, learn, ...

    The learner's `collect` increments `state.phase`; its `learn` leaves `state.ring`, and returns
    the named metrics.

    Returns:
        the state, sums over episodes, and means of the metrics over the phases that learned.
    """
    config = learner.config
    waiting = -(-config.learning_starts // config.train_interval)  # phases

    def phase(carry, key):
        state, sums, totals = carry
        collect_key, learn_key = jax.random.split(key)
        state, sums = learner.collect(state, sums, collect_key, hyperparams, env_params)

        # The replay memory stays outside: a branch that returned it would copy it.
        def learn_now():
            after, metrics = learner.learn(state, learn_key, hyperparams, meta_params)
            return after.replace(ring=None), {**metrics, "phases": jnp.float32(1.0)}

        def wait():
            return state.replace(ring=None), jax.tree.map(jnp.zeros_like, totals)

        after, metrics = cond(state.phase >= waiting, learn_now, wait)
        state = after.replace(ring=state.ring)
        return (state, sums, jax.tree.map(jnp.add, totals, metrics)), None

    phases_key, key = jax.random.split(state.key)
    keys = jax.random.split(phases_key, config.phases_per_update)
    totals = dict.fromkeys((*metrics, "phases"), jnp.float32(0.0))
    carry = state.replace(key=key), zero_sums(len(state.envs.obs)), totals
    (state, sums, totals), _ = jax.lax.scan(phase, carry, keys)
    means = {name: totals[name] / jnp.maximum(totals["phases"], 1.0) for name in metrics}
    return state, jax.tree.map(jnp.sum, sums), means


class Priorities(NamedTuple):
    """A tree of sums: the leaves are the rows' priorities, a node is the sum of its children.

    Drawing a row in proportion to its priority descends from the root to a leaf, and changing a
    priority ascends: FAN_OUT additions per level, for all rows of a batch at once.
    """

    levels: tuple[jax.Array, ...]
    """Leaves first, root last; every level but the root is padded with zeros to full families."""
    largest: jax.Array
    """[] the largest priority that was ever set, 1 at first."""

    @classmethod
    def empty(cls, capacity: int) -> "Priorities":
        """Return a tree over `capacity` rows, all with priority zero."""
        levels, size = [], capacity
        while size > 1:
            families = -(-size // FAN_OUT)
            levels.append(jnp.zeros(families * FAN_OUT))
            size = families
        return cls((*levels, jnp.zeros(1)), largest=jnp.float32(1.0))


def set_priorities(priorities: Priorities, rows: jax.Array, values: jax.Array) -> Priorities:
    """Change the priorities of rows [B] int32 to values [B].

    A row that occurs twice must come with the same value.
    """
    levels = [priorities.levels[0].at[rows].set(values)]
    for level in priorities.levels[1:]:
        rows = rows // FAN_OUT
        # Sums are recomputed, so rounding errors do not accumulate.
        sums = jnp.sum(levels[-1].reshape(-1, FAN_OUT)[rows], axis=1)
        levels.append(level.at[rows].set(sums))
    return Priorities(tuple(levels), jnp.maximum(priorities.largest, jnp.max(values)))


def with_errors(
    priorities: Priorities | None,
    rows: jax.Array,
    error: jax.Array,
    exponent: jax.Array | float,
    epsilon: jax.Array | float,
) -> Priorities | None:
    """Update the priorities of rows [B] from their errors [B], in PRIORITIES; None stays None.

    A priority is (|error| + epsilon) ^ exponent.
    """
    if priorities is None:
        return None
    priority = jnp.power(jnp.abs(error) + epsilon, exponent)
    return set_priorities(priorities, rows, jnp.clip(priority, *PRIORITIES))


def draw(priorities: Priorities, key: jax.Array, count: int) -> tuple[jax.Array, jax.Array]:
    """Draw rows in proportion to their priorities, one from each of `count` equal shares.

    Returns:
        Rows [count] int32, and their probabilities [count] in a single draw.
    """
    *below, root = priorities.levels
    total = root[0]
    shares = jnp.arange(count, dtype=jnp.float32) + jax.random.uniform(key, (count,))
    left = shares / count * total  # distance from the current node to the drawn number
    rows = jnp.zeros(count, jnp.int32)
    for level in reversed(below):
        families = level.reshape(-1, FAN_OUT)[rows]
        sums = jnp.cumsum(families, axis=1)
        # Rounding must not select a child after the last child with a priority.
        left = jnp.minimum(left, jnp.nextafter(sums[:, -1], jnp.zeros(count)))
        child = jnp.sum(sums <= left[:, None], axis=1, dtype=jnp.int32)
        before = jnp.take_along_axis(sums - families, child[:, None], axis=1)[:, 0]
        left = jnp.maximum(left - before, 0.0)
        rows = FAN_OUT * rows + child
    return rows, priorities.levels[0][rows] / total
