"""Population-based training (Jaderberg et al. 2017): settings that change while agents learn.

Members are ranked by the fitness of the round. After each round the worst ones become copies of the
best ones and try something near. It all happens inside one compiled program: members are dealt to
the devices, which exchange states.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from metaevo.evolution import devices
from metaevo.training.agents import Agents, Row
from metaevo.training.fitness import FitnessConfig, measures
from metaevo.training.fitness import fitness as fitness_of
from metaevo.training.population import Population
from metaevo.tuning.config import PbtConfig, SweepConfig
from metaevo.tuning.objective import traced_statistic
from purerl.types import EpisodeSums


class Dim(NamedTuple):
    """A setting that is searched; it must be a traced hyperparam."""

    name: str
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    """drawn evenly on a logarithmic scale"""
    integer: bool = False
    choices: tuple[float, ...] = ()
    """instead of a range; never multiplied, only drawn again"""


class State(struct.PyTreeNode):
    """A population, dealt to the devices: each leaf [devices, members, seeds, ...]."""

    rows: Row
    score: Any
    """of the latest round; NaN before the first"""


class History(NamedTuple):
    """What happened, round by round."""

    scores: np.ndarray
    """[rounds, members] the objective of each round; minus infinity where a seed diverged"""
    parents: np.ndarray
    """[rounds, members] index of the member that each one copied; its own if it went on"""
    hyperparams: dict[str, np.ndarray]
    """[rounds, members] the searched settings that a round was trained with"""


class Pbt:
    """A population of members, each on several seeds; the members of a device are trained in turn.

    Random draws depend neither on the number of devices nor on the chunks. Rounding does
    (see `metaevo.devices.map_rows`), so scores and copies may differ.
    """

    def __init__(
        self,
        population: Population,
        dims: Sequence[Dim],
        config: PbtConfig,
        sweep: SweepConfig,
        *,
        members: int,
    ):
        """Bind the parts; compiles in `round`.

        Args:
            population: of single members; its devices, its chunk size and its fitness are used.
            dims: the settings that change.
            config: rounds and rules.
            sweep: the number of seeds and the statistic over them.
            members: of the population.

        Raises:
            ValueError: if there are fewer than two members, or more rounds than updates.
        """
        if members < 2:
            raise ValueError(f"members = {members}: must be at least 2")
        if config.rounds > population.num_updates:
            raise ValueError(f"rounds = {config.rounds}: must be at most {population.num_updates}")
        self.population, self.dims, self.config, self.sweep = population, tuple(dims), config, sweep
        self.members, self.seeds = members, sweep.seeds
        self.ends = round_ends(population.num_updates, config.rounds)
        # Divisors, to avoid padding.
        self.num_devices = _divisor(members, population.num_devices)
        self.local = members // self.num_devices
        self.chunk = _divisor(self.local, max(1, population.chunk_size // sweep.seeds))
        self._round = devices.spread(
            self._round_device,
            in_axes=(0, None, None, None, None),
            num_devices=self.num_devices,
            donate=(0,),
        )

    def init(self, settings: Sequence[Any], keys: jax.Array) -> State:
        """Return the untrained population.

        Args:
            settings: the hyperparams with which each member begins.
            keys: [seeds] random keys, the same for all members.
        """
        rows = self.population.init(keys, settings).rows
        shape = self.num_devices, self.local, self.seeds
        rows = jax.tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), rows)
        return self.place(State(rows, np.full(shape, np.nan, np.float32)))

    def place(self, state: State) -> State:
        """Put a state from the host (of a checkpoint) on the devices."""
        return devices.place(state, self.num_devices)

    def round(self, state: State, index: int, key: jax.Array) -> tuple[State, History]:
        """Train one round, then exploit and explore; the last round only trains.

        Args:
            state: its buffers are given up.
            index: of the round.
            key: of the whole run; the round's randomness depends on it and the index only.

        Returns:
            the state, and the history of this round, without the axis of rounds.
        """
        start = self.ends[index - 1] if index else 0
        data = np.asarray(jax.random.key_data(key))
        numbers = np.int32(index), np.int32(start), np.int32(self.ends[index] - start)
        state, record = self._round(state, *numbers, data)
        # Every device has the same record.
        return state, History(*jax.device_get(devices.first(record)))

    def agents(self, state: State) -> Agents:
        """Return the agents of a fully trained state, on the host."""
        rows = jax.device_get(state.rows)
        rows = jax.tree.map(lambda leaf: devices.merged(leaf, 3), rows)
        return Agents(rows, self.seeds, self.population.num_updates)

    def _round_device(self, state, index, done, updates, key_data):
        before = _totals(state.rows)
        rows = self._train(state.rows, done, updates)
        recent = jax.tree.map(jnp.subtract, _totals(rows), before)
        score = round_score(self.population.fitness, recent, state.score)
        value = jax.vmap(lambda scores: traced_statistic(scores, self.sweep))(score)
        usable = jnp.all(rows.finite, axis=1) & jnp.isfinite(value)
        values = _gather(jnp.where(usable, value, -jnp.inf))
        used = {dim.name: getattr(rows.hyperparams, dim.name)[:, 0] for dim in self.dims}
        used = jax.tree.map(_gather, used)
        # Drawn for all members on every device, so that their placement does not matter.
        key = jax.random.fold_in(jax.random.wrap_key_data(key_data), index)
        keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, jnp.arange(self.members))
        parents = self._parents(values, jax.vmap(lambda key: jax.random.fold_in(key, 0))(keys))
        itself = jnp.arange(self.members)
        parents = jnp.where(index + 1 < self.config.rounds, parents, itself)
        offset = jax.lax.axis_index(devices.AXIS) * self.local
        own = offset + jnp.arange(self.local)
        mine = parents[own]
        state = jax.tree.map(lambda leaf: _gather(leaf)[mine], State(rows, score))
        explored = {}
        for number, dim in enumerate(self.dims):
            drawn = jax.vmap(self._explore, in_axes=(None, 0, 0))(
                dim,
                used[dim.name][mine],
                jax.vmap(lambda key, number=number: jax.random.fold_in(key, 1 + number))(keys[own]),
            )
            new = jnp.where(mine == own, used[dim.name][mine], drawn)
            explored[dim.name] = jnp.repeat(new[:, None], self.seeds, axis=1)
        hyperparams = state.rows.hyperparams.replace(**explored)
        state = state.replace(rows=state.rows.replace(hyperparams=hyperparams))
        return state, (values, parents, used)

    def _train(self, rows: Row, done: jax.Array, updates: jax.Array) -> Row:
        """Train the members [local, seeds] of a device, chunk after chunk."""

        def chunked(leaf):
            size = self.chunk * self.seeds
            return leaf.reshape(self.local * self.seeds // size, size, *leaf.shape[2:])

        def members(leaf):
            return leaf.reshape(self.local, self.seeds, *leaf.shape[2:])

        trained = jax.lax.map(
            lambda chunk: self.population.train_rows(chunk, done, updates),
            jax.tree.map(chunked, rows),
        )
        return jax.tree.map(members, trained)

    def _parents(self, values: jax.Array, keys: jax.Array) -> jax.Array:
        """Return the index of the member that each one copies [members]; its own if it stays."""
        number = max(1, int(self.config.truncation * self.members))
        order = jnp.argsort(-values)  # stable
        rank = jnp.argsort(order)
        fit = jnp.sum(jnp.isfinite(values))
        top = jnp.clip(fit, 1, number)  # the members of the top share that did not diverge
        chosen = order[jax.vmap(lambda key: jax.random.randint(key, (), 0, top))(keys)]
        replaced = (rank >= self.members - number) | ~jnp.isfinite(values)
        return jnp.where(replaced & (fit > 0), chosen, jnp.arange(self.members))

    def _explore(self, dim: Dim, value: jax.Array, key: jax.Array) -> jax.Array:
        """Return another value of a setting: near this one, or one drawn from its range."""
        coin, factor_key, draw_key = jax.random.split(key, 3)
        if dim.choices:
            drawn, near = jax.random.choice(draw_key, jnp.asarray(dim.choices)), value
        else:
            low, high = (np.log(dim.low), np.log(dim.high)) if dim.log else (dim.low, dim.high)
            drawn = jax.random.uniform(draw_key, minval=low, maxval=high)
            drawn = jnp.exp(drawn) if dim.log else drawn
            near = value * jax.random.choice(factor_key, jnp.asarray(self.config.perturb))
        new = jnp.where(jax.random.uniform(coin) < self.config.resample, drawn, near)
        if dim.choices:
            return new
        return jnp.clip(jnp.round(new) if dim.integer else new, dim.low, dim.high)


def round_ends(num_updates: int, rounds: int) -> list[int]:
    """Return the updates that have been taken after each round."""
    return [(index + 1) * num_updates // rounds for index in range(rounds)]


def winner(history: History) -> int:
    """Return the best member of the last round."""
    return int(np.argmax(history.scores[-1]))


def lineage(history: History, member: int) -> dict[str, np.ndarray]:
    """Return the settings [rounds] with which a member and its ancestors were trained."""
    rounds = len(history.parents)
    line = np.full(rounds, member)
    for index in range(rounds - 2, -1, -1):
        line[index] = history.parents[index, line[index + 1]]
    return {name: values[np.arange(rounds), line] for name, values in history.hyperparams.items()}


def train_schedule(
    population: Population,
    schedule: dict[str, np.ndarray],
    keys: jax.Array,
    progress: Callable[[int], Any] | None = None,
) -> Agents:
    """Train fresh agents with settings that change from round to round, as `lineage` gives them.

    Args:
        population: has the hyperparams that the schedule leaves out.
        schedule: each [rounds].
        keys: [seeds] random keys.
        progress: called with the environment steps just taken.
    """
    rounds = len(next(iter(schedule.values())))
    settings = [
        population.hyperparams.replace(**{name: float(each[i]) for name, each in schedule.items()})
        for i in range(rounds)
    ]
    agents = population.init(keys, settings[:1])
    for setting, end in zip(settings, round_ends(population.num_updates, rounds), strict=True):
        agents = population.with_hyperparams(agents, [setting])
        agents = population.advance(agents, end - agents.updates, progress)
    return agents


def _totals(rows: Row) -> EpisodeSums:
    """Sums over the whole training so far, for each agent."""
    return jax.tree.map(lambda windows: windows.sum(axis=-1), rows.episodes)


def round_score(config: FitnessConfig, recent: EpisodeSums, previous: jax.Array) -> jax.Array:
    """Return the fitness of a round; its final return is its mean return.

    Args:
        config: weights of the measures.
        recent: sums over the round, each field [members, seeds].
        previous: scores of the round before [members, seeds], NaN before the first.

    Returns:
        scores [members, seeds]. Where the fitness needs an episode and none finished, the previous
        score, or the reward per step in the first round.
    """

    def of_agent(sums):
        measured = measures(jax.tree.map(lambda leaf: leaf[jnp.newaxis], sums))
        return fitness_of(config, measured), measured["reward_per_step"]

    score, reward = jax.vmap(jax.vmap(of_agent))(recent)
    return jnp.where(jnp.isnan(score), jnp.where(jnp.isnan(previous), reward, previous), score)


def _gather(leaf: jax.Array) -> jax.Array:
    """From the members of a device to all members, on every device."""
    return jax.lax.all_gather(leaf, devices.AXIS, tiled=True)


def _divisor(number: int, limit: int) -> int:
    """Return the largest divisor that is within the limit."""
    return max(each for each in range(1, min(number, limit) + 1) if number % each == 0)
