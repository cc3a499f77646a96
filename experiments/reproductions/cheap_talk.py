"""Adversarial cheap talk on CartPole: what an evolved channel does to fresh victims."""

import dataclasses
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Gt, Interval

from experiments.reproductions.comparison import Comparison, Output
from experiments.reproductions.opponent_shaping import evolve
from metaevo.components.component import LEARNED
from metaevo.config import from_dict, load_yaml, presets
from metaevo.evolution.evolution import Evolution
from metaevo.runs.settings import MAX_SEED
from metaevo.studies.games import victims
from metaevo.studies.games.cheap_talk import CheapTalkStudy
from metaevo.studies.games.cheap_talk_settings import JudgingConfig, settings_class


@dataclass(frozen=True)
class Settings:
    """How much of everything."""

    generations: Annotated[int, Gt(0)] = 40
    """of the evolution"""
    victims: Annotated[int, Gt(1)] = 32
    """fresh ones that every channel talks to"""
    frames: Annotated[int, Gt(0)] = 32_768
    """of a victim's training"""
    seed: Annotated[int, Interval(ge=0, le=MAX_SEED)] = 0
    """of the evolution"""


def check(settings: Settings) -> None:
    """Nothing optional is needed."""
    del settings


def run(settings: Settings, output: Output) -> None:
    """Evolve an adversary, and let it talk beside hand-written channels."""
    raw = load_yaml(presets.find("cheap_talk/cartpole"))
    raw["train"]["total_timesteps"] = settings.frames
    raw["run"] = {"seed": settings.seed}
    talk = from_dict(settings_class(raw, None), raw)
    talk = dataclasses.replace(
        talk,
        evolution=dataclasses.replace(talk.evolution, generations=settings.generations),
        evaluation=JudgingConfig(seeds=settings.victims),
    )
    study = CheapTalkStudy(talk)
    evolution = Evolution(study.problem({}), talk.strategy, talk.evolution, seed=settings.seed)
    evolution.compile()
    weights, seconds = evolve(evolution, settings.seed)
    found = victims.compare(
        talk, {LEARNED: weights}, output.run.figures, evolution_frames=0, check_stop=lambda: None
    )
    study.draw(weights, output.run.figures)
    output.table(
        "cheap_talk",
        ["channel", "mean return", "in the last quarter", "95% interval of the latter"],
        [
            [name, first["mean_return"][0], value, f"[{low:.0f}, {high:.0f}]"]
            for name, (first, *_) in found["victims"]["channels"].items()
            for value, low, high in [first["last_quarter"]]
        ],
    )
    output.note(
        f"Of {settings.victims} fresh victims each. {settings.generations} generations of "
        f"{talk.strategy.population_size} candidates took {seconds:.0f} s after compilation."
    )


COMPARISON = Comparison(
    title="An adversary that talks to PPO on CartPole",
    published="Messages that are a function of the observation alone ruin how PPO learns CartPole "
    "(Lu et al. 2023, as curves).",
    settings=Settings,
    quick={"generations": 2, "victims": 4, "frames": 4096},
    check=check,
    run=run,
)
