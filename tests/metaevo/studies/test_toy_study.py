"""A fourth study is one file: with a comparison, a figure and a table of its own."""

import json
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metaevo import EvolutionConfig, StrategyConfig
from metaevo.comparison.comparison import UNTUNED, Variant, summary
from metaevo.config import ConfigError
from metaevo.evolution.problem import Evaluation
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.reports.page import Table
from metaevo.reports.score_plots import ScoreRow, plot_scores
from metaevo.runs import checkpoint
from metaevo.studies.run import run_study
from metaevo.studies.settings import RunConfig

SEEDS = 16


@dataclass(frozen=True)
class Settings:
    """What config.yaml holds: the sections that every evolution has, and one of the study's own."""

    strategy: StrategyConfig
    evolution: EvolutionConfig
    run: RunConfig
    target: float


class Aiming:
    """Come near to a target, with noise."""

    def __init__(self, target):
        self.target = target

    def init(self, key):
        return jnp.zeros(2)

    def evaluate(self, key, meta_params):
        noise = 0.1 * jax.random.normal(key)
        return Evaluation(noise - jnp.sum((meta_params - self.target) ** 2), {"noise": noise})


class AimingStudy:
    """Conforms to `metaevo.studies.study.Study`, with nothing imported from other studies."""

    name = "aiming"
    folds = ""

    def __init__(self, settings):
        self.settings = settings

    @property
    def captions(self):
        return {"aim.png": "How near each of them comes."}

    def check(self):
        if not np.isfinite(self.settings.target):
            raise ConfigError(f"target = {self.settings.target}: must be finite")

    def measure(self):
        return {"aim": self.settings.target}

    def keep(self, directory, measured):
        (directory.path / "aim.txt").write_text(str(measured["aim"]))

    def problem(self, measured):
        return Aiming(measured["aim"])

    def save(self, directory, meta_params, generation):
        checkpoint.save_tree(directory.meta_params, jax.device_get(meta_params), {"of": self.name})

    def draw(self, meta_params, figures):
        near = float(-jnp.max(jnp.abs(meta_params - self.settings.target)))
        row = ScoreRow("learned", near, (near, near), tuned=False)
        plot_scores([row], figures / "aim.png", xlabel="minus the distance")

    draw_frame = draw

    def compare(self, learned, path, *, evolution_frames, measured, check_stop):
        problem, keys = self.problem(measured), keys_for(0, Purpose.HELD_OUT, SEEDS)
        scores = {
            name: np.asarray(jax.vmap(lambda k, c=c: problem.evaluate(k, c).fitness)(keys))
            for name, c in {**learned, "zero": jnp.zeros(2)}.items()
        }
        check_stop()
        variants = [Variant(name, name, {}, 0) for name in scores]
        return {
            **summary(variants, scores, dict.fromkeys(scores, 0), list(learned)),
            **UNTUNED,
            "frames_per_agent": 1,
            "evolution_frames": evolution_frames,
        }

    def title(self, generations):
        return "Aiming", f"{generations} generations"

    def findings(self, meta_params, result):
        return [f"It aims at {self.settings.target}."]

    def tables(self, result):
        return [Table("What was aimed at", ["target"], [[self.settings.target]])]


def settings_of(generations):
    return Settings(
        StrategyConfig(population_size=16, sigma=0.3, learning_rate=0.1),
        EvolutionConfig(generations=generations, num_devices=1, chunk_size=16),
        RunConfig(),
        target=0.5,
    )


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("aiming") / "run"
    settings = settings_of(40)
    assert run_study(AimingStudy(settings), settings, run_dir=path, resume=False) == 0
    return path


def test_it_is_judged_drawn_and_reported(directory):
    result = json.loads((directory / "evaluation.json").read_text())
    assert result["conclusion"] == "better"
    assert [row["name"] for row in result["variants"]] == ["learned", "zero"]
    page = (directory / "report.html").read_text()
    for text in ("Aiming", "40 generations", "Held-out comparison", "What was aimed at"):
        assert text in page
    assert "How near each of them comes." in page
    found, _ = checkpoint.load_tree(directory / "meta_params")
    np.testing.assert_allclose(found, 0.5, atol=0.2)
    assert (directory / "aim.txt").read_text() == "0.5"


def test_it_goes_on_with_what_it_has_measured(directory):
    settings = settings_of(45)
    assert run_study(AimingStudy(settings), settings, run_dir=directory, resume=True) == 0
    assert "45 generations" in (directory / "report.html").read_text()
    other = Settings(settings.strategy, settings.evolution, settings.run, target=0.7)
    with pytest.raises(ConfigError, match=r"cannot resume with other settings \(target: 0.5"):
        run_study(AimingStudy(other), other, run_dir=directory, resume=True)
