"""Opponent shaping in matrix games: a meta-policy is evolved against opponents that learn.

M-FOS (Lu et al. 2022, "Model-Free Opponent Shaping"): the opponents' learning depends on our
policies, so a policy over policies can steer their learning.

    metaevo evolve --config configs/shaping/ipd.yaml

Opponents are the tasks of the problem: those of the evolution, and unseen ones for the judgement.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Gt, Interval, MinLen

import metaevo
from experiments.shaping import figures, opponents
from experiments.shaping.games import LOGITS, Game
from experiments.shaping.opponents import Player
from experiments.shaping.players import ZERO_DETERMINANT, Weights, find, shaper
from metaevo.config import code

Payoffs = tuple[tuple[float, float], tuple[float, float]]
EPISODES = 64
"""Meta-episodes of a figure."""
RATES = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Factors on the opponents' learning rate, of which a contender that learns takes the best."""
FACTORS, LEVELS = (1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0), (0.0, 0.25, 0.5, 0.75, 1.0)
"""Factors and levels of the zero-determinant strategies, of which a contender takes the best."""
TUNING_SEEDS = 64
FIXED = opponents.constant(None)
"""Stands for a player whose policy is its point."""


@dataclass(frozen=True)
class GameConfig:
    """Repeated game, and the length of a meta-episode.

    Raises:
        ValueError: for payoffs that are not finite.
    """

    payoffs: Payoffs = ((-1.0, -3.0), (0.0, -2.0))
    """our payoffs: a row for each of our actions (cooperate, defect), a column for each of the
    opponent's"""
    opponent_payoffs: Payoffs | None = None
    """the opponent's payoffs, in the same places; null if both see the same game"""
    discount: Annotated[float, Interval(ge=0, le=0.9999)] = 0.96
    """discount factor of the repeated game, below 1"""
    steps: Annotated[int, Interval(gt=0, le=100_000)] = 100
    """joint moves of a meta-episode: how often both choose a new policy"""

    def __post_init__(self) -> None:
        for name in ("payoffs", "opponent_payoffs"):
            payoffs = getattr(self, name)
            if payoffs is not None and not np.all(np.isfinite(payoffs)):
                raise ValueError(f"{name}: must be finite numbers")

    @property
    def game(self) -> Game:
        """The game as we see it."""
        return Game.of(self.payoffs, self.opponent_payoffs, self.discount)


@dataclass(frozen=True)
class OpponentConfig:
    """Opponents of the evolution, and others that only the judgement meets."""

    names: str | Annotated[tuple[str, ...], MinLen(1)] = "naive"
    """naive, lola, best_response, always_defect, tit_for_tat, generous_tit_for_tat,
    win_stay_lose_shift, zero_determinant, a player of your own (my_players.py:Momentum), or the
    directory of a run that evolved a meta-policy; or a list of several"""
    learning_rate: Annotated[float, Gt(0)] = 1.0
    """learning rate of opponents that learn; they ascend the discounted sum of their payoffs"""
    unseen: tuple[str, ...] = (
        "lola",
        "best_response",
        "always_defect",
        "tit_for_tat",
        "generous_tit_for_tat",
        "win_stay_lose_shift",
        "zero_determinant",
    )
    """further opponents of the judgement"""
    unseen_rates: tuple[Annotated[float, Gt(0)], ...] = (0.3, 3.0)
    """further learning rates of the opponents of the evolution, as factors"""

    @property
    def all(self) -> tuple[str, ...]:
        """Names of the opponents of the evolution as a list."""
        return (self.names,) if isinstance(self.names, str) else self.names


@dataclass(frozen=True)
class PolicyConfig:
    """Meta-policy network, from the probabilities of both policies to our next policy."""

    hidden: Annotated[int, Interval(gt=0, le=4096)] = 16
    """tanh units"""


class Opponent(NamedTuple):
    """A task: a player with its learning rate."""

    label: str
    player: Player
    rate: float
    policy: Any = None
    """[5] logits of a player that never changes"""


@dataclass(frozen=True)
class MatrixGame(metaevo.MetaProblem):
    """Play one meta-episode with a candidate against an opponent.

    Raises:
        metaevo.ConfigError: if an opponent is unknown or cannot play the game, or none learns.
    """

    game: GameConfig = field(default_factory=GameConfig)
    opponent: OpponentConfig = field(default_factory=OpponentConfig)
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    captions: ClassVar = {
        "meta_episode.png": "Probabilities of cooperating at the start and after each outcome (a "
        "player's own action first), and payoffs, over a meta-episode: means of "
        f"{EPISODES} of them against the first opponent.",
    }

    def __post_init__(self) -> None:
        met = [self._opponent(name) for name in self.opponent.all]
        if all(each.policy is not None for each in met):
            raise metaevo.ConfigError(
                f"opponent.names: {', '.join(self.opponent.all)} never changes: at least one "
                "opponent must learn, such as naive or lola"
            )
        self._meet(met, self)

    def _opponent(self, name: str) -> Opponent:
        label = name.rpartition(":")[2] if code.is_name(name) else name
        found = find(name, self.game.game)
        if isinstance(found, Player):
            return Opponent(label, found, self.opponent.learning_rate)
        return Opponent(label, opponents.constant(found), 1.0, found)

    def _meet(self, met: Sequence[Opponent], evolved: "MatrixGame") -> None:
        labels = [each.label for each in met]
        for label in labels:
            if labels.count(label) > 1:
                raise metaevo.ConfigError(f"opponent.names: {label!r} is named twice")
        object.__setattr__(self, "met", list(met))
        object.__setattr__(self, "tasks", labels)
        object.__setattr__(self, "evolved", evolved)

    met: ClassVar[list[Opponent]]
    """the opponents; set for each object"""
    evolved: ClassVar["MatrixGame"]
    """the game of the evolution, on which hand-written players are tuned"""

    @property
    def description(self) -> Any:
        """What scores depend on."""
        return [repr(self), self.tasks]

    def frames(self, task: Any) -> int:
        """Return the joint moves of a meta-episode."""
        return self.game.steps

    def init(self, key: jax.Array) -> Weights:
        """Draw a meta-policy, 10 -> hidden tanh -> 5, that cooperates with probability 1/2."""
        hidden = self.policy.hidden
        kernel = jax.random.normal(key, (2 * LOGITS, hidden)) / np.sqrt(2 * LOGITS)
        return {
            "hidden": {"kernel": kernel, "bias": jnp.zeros(hidden)},
            "out": {"kernel": jnp.zeros((hidden, LOGITS)), "bias": jnp.zeros(LOGITS)},
        }

    def evaluate(self, key: jax.Array, meta_params: Weights, task: Any) -> metaevo.Evaluation:
        """Play a meta-episode."""
        return self.meet(key, shaper(meta_params), self.opponent.learning_rate, task)

    def meet(self, key: jax.Array, player: Player, rate: Any, task: Any) -> metaevo.Evaluation:
        """Play a meta-episode of a player with a learning rate."""

        def against(other: Player) -> Callable[..., metaevo.Evaluation]:
            def play(key, rates):
                found = self.episode(key, player, other, rates)
                return metaevo.Evaluation(jnp.mean(found.own), {"opponent": jnp.mean(found.other)})

            return play

        # Opponents that differ in numbers only share a branch.
        learning = [each.player for each in self.met if each.policy is None]
        learning = list({id(each): each for each in learning}.values())
        policies = [np.zeros(LOGITS) if o.policy is None else o.policy for o in self.met]
        policy = jnp.asarray(np.stack(policies), jnp.float32)[task]
        branches = [against(each) for each in (*learning, opponents.constant(policy))]
        places = [
            len(learning) if o.policy is not None else [*map(id, learning)].index(id(o.player))
            for o in self.met
        ]
        theirs = jnp.asarray([each.rate for each in self.met], jnp.float32)[task]
        if len(set(places)) == 1:
            return branches[places[0]](key, (rate, theirs))
        found: metaevo.Evaluation = jax.lax.switch(
            jnp.asarray(places)[task], branches, key, (rate, theirs)
        )
        return found

    def episode(
        self, key: jax.Array, player: Player, other: Player, rates: tuple[Any, Any]
    ) -> opponents.Episode:
        """Play a meta-episode from random policies."""
        start = opponents.draw_start(jax.random.split(key)[0])
        game, steps = self.game.game, self.game.steps
        return opponents.play(game, player, other, start, rates=rates, steps=steps)

    def contenders(self) -> list[metaevo.Contender]:
        """Return hand-written players, each the best of its variants in the evolution's game."""
        return [
            metaevo.Contender(name, self._hand_written(player), point)
            for name, player, point in self.evolved._tuned
        ]

    @cached_property
    def _hand_written(self) -> Callable[[Player], "HandWritten"]:
        return functools.cache(functools.partial(HandWritten, self))

    @cached_property
    def _tuned(self) -> list[tuple[str, Player, Any]]:
        """Hand-written players by name, with their best points."""
        keys = jax.random.split(jax.random.fold_in(jax.random.key(0), 0x7E57), TUNING_SEEDS)
        found = []
        for name, player, variants in self._variants():
            rows, problem = np.stack(variants), self._hand_written(player)
            fitness = [
                metaevo.evaluate(problem, rows, keys, task=task).fitness
                for task in range(len(self.met))
            ]
            found.append((name, player, variants[int(np.argmax(np.mean(fitness, axis=0)))]))
        return found

    def _variants(self) -> list[tuple[str, Player, list[np.ndarray]]]:
        """Return hand-written players and their points [6]: a learning rate and five logits."""
        learners = {"naive": opponents.naive, "lola": opponents.lola}
        learners |= {
            each.label: each.player
            for each, name in zip(self.met, self.opponent.all, strict=False)
            if code.is_name(name)
        }
        rates = [factor * self.opponent.learning_rate for factor in RATES]
        found: list[Any] = [
            (name, player, [np.array([rate, *[0.0] * LOGITS], np.float32) for rate in rates])
            for name, player in learners.items()
        ]
        tit_for_tat = opponents.FIXED["tit_for_tat"]
        lines = [
            opponents.zero_determinant(self.game.game, factor, level)
            for factor in FACTORS
            for level in LEVELS
        ]
        for name, policies in (("tit_for_tat", [tit_for_tat]), (ZERO_DETERMINANT, lines)):
            points = [
                np.array([1.0, *opponents.logits(each)], np.float32)
                for each in policies
                if each is not None
            ]
            found += [(name, FIXED, points)] if points else []
        return found

    def unseen(self) -> "MatrixGame | None":
        """Return the game with the opponents that only the judgement meets."""
        given = self.opponent
        met = [
            each._replace(label=f"{each.label}, rate {factor * each.rate:.3g}",
                          rate=factor * each.rate)
            for each, name in zip(self.met, given.all, strict=True)
            for factor in given.unseen_rates
            if name in opponents.LEARNING or code.is_name(name)
        ]  # fmt: skip
        met += [self._opponent(name) for name in given.unseen if name not in given.all]
        if not met:
            return None
        found = replace(self)
        found._meet(met, self)
        return found

    def draw(self, meta_params: Weights, folder: Path) -> None:
        """Draw meta-episodes against the first opponent."""
        folder.mkdir(parents=True, exist_ok=True)
        found = self._illustrate(meta_params)
        chances = np.asarray(jnp.mean(jax.nn.sigmoid(found.policies), axis=0))
        payoffs = np.stack([found.own, found.other], axis=-1).mean(axis=0)
        path = folder / "meta_episode.png"
        figures.plot_meta_episode(chances, payoffs, path, opponent=self.met[0].label)

    def findings(self, meta_params: Weights) -> list[str]:
        """Return the payoffs of both sides."""
        found = self._illustrate(meta_params)
        own, other = float(np.mean(found.own)), float(np.mean(found.other))
        name = self.met[0].label
        return [f"Against {name} it earns {own:.2f} a step, the opponent {other:.2f}."]

    @cached_property
    def _illustrate(self) -> Callable[[Weights], opponents.Episode]:
        keys = jax.random.split(jax.random.key(0), EPISODES)
        first, rate = self.met[0], self.opponent.learning_rate

        def play(weights, key):
            return self.episode(key, shaper(weights), first.player, (rate, first.rate))

        compiled = jax.jit(jax.vmap(play, in_axes=(None, 0)))
        return lambda weights: jax.device_get(compiled(jax.tree.map(jnp.asarray, weights), keys))


class HandWritten(metaevo.MetaProblem):
    """A game of a hand-written player, whose points [6] are a learning rate and five logits."""

    def __init__(self, game: MatrixGame, player: Player):
        """Bind a game and a player, or `FIXED` for the policy with the logits."""
        self.game, self.player, self.tasks = game, player, list(game.tasks)

    @property
    def description(self) -> Any:
        """What scores depend on."""
        return ["hand-written", self.game.description]

    def frames(self, task: Any) -> int:
        """Return the joint moves of a meta-episode."""
        return self.game.frames(task)

    def init(self, key: jax.Array) -> jax.Array:
        """Return a point."""
        return jnp.zeros(1 + LOGITS)

    def evaluate(self, key: jax.Array, meta_params: Any, task: Any) -> metaevo.Evaluation:
        """Play a meta-episode."""
        player = opponents.constant(meta_params[1:]) if self.player is FIXED else self.player
        return self.game.meet(key, player, meta_params[0], task)
