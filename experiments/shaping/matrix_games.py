"""Opponent shaping in matrix games: a meta-policy is evolved against opponents that learn.

M-FOS (Lu et al. 2022, "Model-Free Opponent Shaping"): the opponents' learning depends on our
policies, so a policy over policies can steer their learning.

    metaevo evolve --config configs/shaping/ipd.yaml

Opponents are the tasks of the problem: those of the evolution, and unseen ones for the judgement.
"""

import copy
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
from experiments.shaping.players import FIXED, ZERO_DETERMINANT, Player, shaper

EPISODES = 64
"""Meta-episodes of a figure, and of the tuning of hand-written players."""
RATES = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Factors on the opponents' learning rate, of which a contender that learns takes the best."""
FACTORS, LEVELS = (1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0), (0.0, 0.25, 0.5, 0.75, 1.0)
"""Factors and levels of the zero-determinant strategies, of which a contender takes the best."""


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


@dataclass(eq=False)
class MatrixGame(metaevo.MetaProblem):
    """Play one meta-episode of a candidate with an opponent, which is the task.

    Raises:
        metaevo.ConfigError: if an opponent is unknown or cannot play the game.
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
        given = self.opponent.names
        self.names = [given] if isinstance(given, str) else given
        self.opponents, self.player = self._find(self.names), shaper(None)
        self.tasks, self.evolution = list(self.opponents), self
        opponents = self.opponents.items()
        self.learners = {name: each for name, each in opponents if isinstance(each.params, float)}

    def _find(self, names: Sequence[str]) -> dict[str, Player]:
        rate, found = float(self.opponent.learning_rate), dict[str, Player]()
        for reference in names:
            if (name := reference.rpartition(":")[2]) in found:
                raise metaevo.ConfigError(f"opponent: {', '.join(names)}: {name} is named twice")
            found[name] = players.find(reference, self.game, rate)
        return found

    def _played_by(self, player: Player) -> "MatrixGame":
        """Return the game of a hand-written player, whose parameters are the meta-parameters."""
        found = copy.copy(self)
        found.player = player
        return found

    def frames(self, task: Any) -> int:
        """Return the joint moves of a meta-episode."""
        return self.game.steps

    def init(self, key: jax.Array) -> Any:
        """Draw a meta-policy, a network from the probabilities of both policies to our next one.

        Its 10 -> hidden tanh -> 5 units first cooperate with probability 1/2. A hand-written player
        has parameters.
        """
        if self.player.params is not None:
            return self.player.params
        kernel = jax.random.normal(key, (2 * LOGITS, self.hidden)) / np.sqrt(2 * LOGITS)
        return {
            "hidden": {"kernel": kernel, "bias": jnp.zeros(self.hidden)},
            "out": {"kernel": jnp.zeros((self.hidden, LOGITS)), "bias": jnp.zeros(LOGITS)},
        }

    def evaluate(self, key: jax.Array, meta_params: Any, task: Any) -> metaevo.Evaluation:
        """Play a meta-episode."""
        ours = self.player._replace(params=meta_params)

        def meet(theirs: Player) -> metaevo.Evaluation:
            payoffs, _ = players.play(self.game, ours, theirs, jax.random.split(key)[0])
            own, other = jnp.mean(payoffs, axis=0)
            return metaevo.Evaluation(own, {"opponent": other})

        branches = [partial(meet, each) for each in self.opponents.values()]
        found: metaevo.Evaluation = jax.lax.switch(task, branches)
        return found

    def contenders(self) -> list[metaevo.Contender]:
        """Return the hand-written players."""
        rivals = self.evolution.rivals
        if self is not self.evolution:
            rivals = {name: self._played_by(each.player) for name, each in rivals.items()}
        return [metaevo.Contender(name, each, each.player.params) for name, each in rivals.items()]

    @cached_property
    def rivals(self) -> dict[str, "MatrixGame"]:
        """Hand-written players, each with the best of its parameters against all opponents."""
        rate, found = self.opponent.learning_rate, {}
        learners = {"naive": players.naive(rate), "lola": players.lola(rate), **self.learners}
        variants = {
            name: [each._replace(params=np.float32(factor * rate)) for factor in RATES]
            for name, each in learners.items()
        }
        variants["tit_for_tat"] = [FIXED["tit_for_tat"]]
        if lines := players.zero_determinant(self.game, FACTORS, LEVELS):
            variants[ZERO_DETERMINANT] = lines
        keys = jax.random.split(jax.random.fold_in(jax.random.key(0), 0x7E57), EPISODES)
        tasks = range(len(self.tasks))
        for name, each in variants.items():
            found[name] = rival = self._played_by(each[0])
            points = np.stack([one.params for one in each])
            tried = [metaevo.evaluate(rival, points, keys, task=task).fitness for task in tasks]
            rival.player = each[int(np.argmax(np.mean(tried, axis=0)))]
        return found

    def unseen(self) -> "MatrixGame | None":
        """Return the game with the opponents that only the judgement meets."""
        given, found = self.opponent, copy.copy(self)
        found.opponents = {
            f"{name}, rate {rate:.3g}": each._replace(params=rate)
            for name, each in self.learners.items()
            for rate in (factor * given.learning_rate for factor in given.unseen_rates)
        }
        found.opponents |= self._find([each for each in given.unseen if each not in self.names])
        found.tasks = list(found.opponents)
        return found if found.tasks else None

    def draw(self, meta_params: Any) -> dict[str, Figure]:
        """Draw the policies and payoffs of both players, against the first opponent."""
        payoffs, policies = jax.device_get(self._episodes(meta_params))
        chances, sides = 1 / (1 + np.exp(-policies)), ["we", self.tasks[0]]
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
    def _episodes(self) -> Callable[[Any], Any]:
        first, keys = self.opponents[self.tasks[0]], jax.random.split(jax.random.key(0), EPISODES)
        return jax.jit(
            lambda weights: jax.vmap(partial(players.play, self.game, shaper(weights), first))(keys)
        )
