"""Opponent shaping in matrix games: a meta-policy is evolved against opponents that learn.

M-FOS (Lu et al. 2022, "Model-Free Opponent Shaping"): the opponents' learning depends on our
policies, so a policy over policies can steer their learning.

    metaevo evolve --config configs/shaping/ipd.yaml

Opponents are the tasks of the problem: those of the evolution, and unseen ones for the judgement.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Annotated, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Gt, Interval, MinLen
from matplotlib.figure import Figure

import metaevo
from experiments.shaping import players
from experiments.shaping.games import LOGITS, Game
from experiments.shaping.players import FIXED, ZERO_DETERMINANT, Episode, Opponent, Player, shaper

EPISODES = 64
"""Meta-episodes of a figure."""
RATES = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Factors on the opponents' learning rate, of which a contender that learns takes the best."""
FACTORS, LEVELS = (1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0), (0.0, 0.25, 0.5, 0.75, 1.0)
"""Factors and levels of the zero-determinant strategies, of which a contender takes the best."""
TUNING_SEEDS = 64


@dataclass(frozen=True)
class OpponentConfig:
    """Opponents of the evolution, and others that only the judgement meets."""

    names: str | Annotated[tuple[str, ...], MinLen(1)] = "naive"
    """naive, lola, best_response, always_defect, tit_for_tat, generous_tit_for_tat,
    win_stay_lose_shift, zero_determinant, a player of your own (my_players.py:Momentum), or the
    directory of a run that evolved a meta-policy; or a list of several"""
    learning_rate: Annotated[float, Gt(0)] = 1.0
    """learning rate of opponents that learn; they ascend the discounted sum of their payoffs"""
    unseen: tuple[str, ...] = ("lola", "best_response", *FIXED, ZERO_DETERMINANT)
    """further opponents of the judgement"""
    unseen_rates: tuple[Annotated[float, Gt(0)], ...] = (0.3, 3.0)
    """further learning rates of the opponents of the evolution, as factors"""

    @property
    def all(self) -> tuple[str, ...]:
        """Names of the opponents of the evolution as a list."""
        return (self.names,) if isinstance(self.names, str) else self.names


class Match(metaevo.MetaProblem):
    """Meta-episodes of a player, whose parameters are the meta-parameters, with opponents."""

    def __init__(
        self, settings: "MatrixGame", player: Player, params: Any, opponents: Sequence[Opponent]
    ):
        """Bind a player, with an example of its parameters, and its opponents, which are tasks."""
        self.settings, self.player, self.params = settings, player, params
        self.opponents, self.tasks = opponents, [each.name for each in opponents]
        self.others: dict[Player, Match] = {}

    @property
    def description(self) -> Any:
        """What scores depend on."""
        return [repr(self.settings), self.tasks]

    def frames(self, task: Any) -> int:
        """Return the joint moves of a meta-episode."""
        return self.settings.game.steps

    def init(self, key: jax.Array) -> Any:
        """Return the example of the player's parameters."""
        return self.params

    def evaluate(self, key: jax.Array, meta_params: Any, task: Any) -> metaevo.Evaluation:
        """Play a meta-episode; opponents that only differ in their parameters share a branch."""
        kinds = list(dict.fromkeys(each.player for each in self.opponents))
        places = jnp.asarray([kinds.index(each.player) for each in self.opponents])
        rows = [np.broadcast_to(each.params, LOGITS) for each in self.opponents]

        def play(player, key, row):
            theirs = player, row if player is players.fixed else row[0]
            found = self.episode(key, meta_params, theirs)
            return metaevo.Evaluation(jnp.mean(found.own), {"opponent": jnp.mean(found.other)})

        branches = [partial(play, player) for player in kinds]
        row = jnp.asarray(np.stack(rows), jnp.float32)[task]
        found: metaevo.Evaluation = jax.lax.switch(places[task], branches, key, row)
        return found

    def episode(self, key: jax.Array, params: Any, theirs: tuple[Any, ...]) -> Episode:
        """Play a meta-episode of the player with its parameters."""
        game, start_key = self.settings.game, jax.random.split(key)[0]
        return players.play(game, (self.player, params), theirs, start_key)

    def contenders(self) -> list[metaevo.Contender]:
        """Return the hand-written players."""
        return [
            metaevo.Contender(name, self.of(player, params), params)
            for name, player, params in self.settings.hand_written
        ]

    def of(self, player: Player, params: Any) -> "Match":
        """Return the match of another player, whose compiled program is kept."""
        match = Match(self.settings, player, params, self.opponents)
        return self.others.setdefault(player, match)


@dataclass(eq=False)
class MatrixGame(Match):
    """Play one meta-episode with a candidate against an opponent.

    Raises:
        metaevo.ConfigError: if an opponent is unknown or cannot play the game, or none learns.
    """

    game: Game = field(default_factory=Game)
    opponent: OpponentConfig = field(default_factory=OpponentConfig)
    hidden: Annotated[int, Interval(gt=0, le=4096)] = 16
    """tanh units of the meta-policy"""
    captions: ClassVar = {
        "meta_episode.png": "Probabilities of cooperating at the start and after each outcome (a "
        "player's own action first), and payoffs, over a meta-episode: means of "
        f"{EPISODES} of them against the first opponent.",
    }

    def __post_init__(self) -> None:
        names = self.opponent.all
        if len(set(names)) < len(names):
            raise metaevo.ConfigError(f"opponent.names: {', '.join(names)}: one is named twice")
        opponents = [self._find(name) for name in names]
        if all(each.player is players.fixed for each in opponents):
            raise metaevo.ConfigError(
                f"opponent.names: {', '.join(names)} never changes: at least one opponent must "
                "learn, such as naive or lola"
            )
        super().__init__(self, shaper, self.init(jax.random.key(0)), opponents)

    def _find(self, name: str) -> Opponent:
        return players.find(name, self.game, self.opponent.learning_rate)

    def init(self, key: jax.Array) -> Any:
        """Draw a meta-policy, a network from the probabilities of both policies to our next one.

        Its 10 -> hidden tanh -> 5 units first cooperate with probability 1/2.
        """
        hidden = self.hidden
        kernel = jax.random.normal(key, (2 * LOGITS, hidden)) / np.sqrt(2 * LOGITS)
        return {
            "hidden": {"kernel": kernel, "bias": jnp.zeros(hidden)},
            "out": {"kernel": jnp.zeros((hidden, LOGITS)), "bias": jnp.zeros(LOGITS)},
        }

    @cached_property
    def hand_written(self) -> list[Opponent]:
        """Hand-written players, each with the best of its parameters against all opponents."""
        learners = {"naive": players.naive, "lola": players.lola}
        learners |= {each.name: each.player for each in self.opponents if each.learns}
        rates = [np.float32(factor * self.opponent.learning_rate) for factor in RATES]
        variants: list[tuple[str, Player, Sequence[Any]]] = [
            *((name, player, rates) for name, player in learners.items()),
            ("tit_for_tat", players.fixed, [players.logits(FIXED["tit_for_tat"])]),
        ]
        if lines := players.zero_determinant(self.game, FACTORS, LEVELS):
            variants.append((ZERO_DETERMINANT, players.fixed, lines))
        keys = jax.random.split(jax.random.fold_in(jax.random.key(0), 0x7E57), TUNING_SEEDS)
        found = []
        for name, player, params in variants:
            match, rows = self.of(player, params[0]), np.stack(params)
            fitness = [
                metaevo.evaluate(match, rows, keys, task=task).fitness
                for task in range(len(self.opponents))
            ]
            best = params[int(np.argmax(np.mean(fitness, axis=0)))]
            found.append(Opponent(name, player, best))
        return found

    def unseen(self) -> Match | None:
        """Return the match with the opponents that only the judgement meets."""
        given = self.opponent
        rates = [factor * given.learning_rate for factor in given.unseen_rates]
        opponents = [
            Opponent(f"{each.name}, rate {rate:.3g}", each.player, rate)
            for each in self.opponents
            for rate in rates
            if each.learns
        ]
        opponents += [self._find(name) for name in given.unseen if name not in given.all]
        return Match(self, shaper, self.params, opponents) if opponents else None

    def draw(self, meta_params: Any) -> dict[str, Figure]:
        """Draw the policies and payoffs of both players, against the first opponent."""
        found, sides = jax.device_get(self._episodes(meta_params)), ["we", self.tasks[0]]
        chances, payoffs = 1 / (1 + np.exp(-found.policies)), np.stack([found.own, found.other], -1)
        situations = ["start", "after CC", "after CD", "after DC", "after DD"]
        panels = {f"{who}: P(cooperate)": chances[:, :, i] for i, who in enumerate(sides)}
        panels["payoff a step"] = payoffs
        figure = Figure(figsize=(7.2, 7.4), dpi=110, layout="constrained")
        for axes, (ylabel, curves) in zip(figure.subplots(3), panels.items(), strict=True):
            labels = sides if curves is payoffs else situations
            axes.plot(np.arange(1, curves.shape[1] + 1), curves.mean(axis=0), label=labels)
            axes.set(xlabel="joint move", ylabel=ylabel)
            axes.legend(ncols=5, fontsize="small")
        return {"meta_episode.png": figure}

    @cached_property
    def _episodes(self) -> Callable[[Any], Episode]:
        first = self.opponents[0][1:]
        keys = jax.random.split(jax.random.key(0), EPISODES)
        play = jax.vmap(lambda key, weights: self.episode(key, weights, first), (0, None))
        return jax.jit(partial(play, keys))
