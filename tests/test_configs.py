"""Every shipped YAML file loads and describes parts that fit; no agent is trained."""

from pathlib import Path

import pytest

from metaevo.config import from_dict, load_yaml, to_dict
from metaevo.judging.verdicts import FEWEST_SETTINGS
from metaevo.runs.quick import quickened
from metaevo.studies.settings import settings_class
from metaevo.studies.study import Study
from metaevo.studies.sweeps import make_objective, sweep_class
from metaevo.training.settings import training_class
from purerl.envs.registry import SUITES

CONFIGS = Path(__file__).parent.parent / "configs"
FILES = sorted(CONFIGS.rglob("*.yaml"))
QUICK = {"evolve_value_loss/q_learning", "evolve_value_loss/ppo", "evolve_drift/ppo"}
QUICK |= {"shaping/ipd", "cheap_talk/cartpole"}
QUICK |= {"sweep/shaping_ipd", "sweep/evolution_q_learning"}


def presets(*folders):
    """The files of some folders; only a few of them are tested before the whole runs."""
    found = [path for path in FILES if path.relative_to(CONFIGS).parts[0].startswith(folders)]
    return [
        pytest.param(path, id=name, marks=[] if name in QUICK else pytest.mark.long)
        for path in found
        for name in [str(path.relative_to(CONFIGS).with_suffix(""))]
    ]


def names(path):
    return str(path.relative_to(CONFIGS))


@pytest.mark.parametrize("path", presets("evolve", "shaping", "cheap_talk"))
def test_an_evolution_preset_fits_together(path):
    raw = load_yaml(path)
    skip_without_suite(raw)
    settings = from_dict(settings_class(raw), raw)
    Study(settings.build(), settings).check()
    assert settings.evolution.generations > 0
    small = quick(settings)
    agents = small.strategy.population_size * small.evolution.seeds_per_candidate
    frames = small.train.total_timesteps if hasattr(small, "train") else 0
    assert_tiny(small, frames, agents * small.evolution.generations)
    assert small.evaluation.seeds <= 8
    if "evolve" in raw:
        assert settings.evaluation.settings >= FEWEST_SETTINGS  # or there is no verdict
        judged = small.evaluation
        assert judged.budget().agents <= 4 * judged.seeds


@pytest.mark.parametrize("path", [each for each in FILES if "train" in names(each)], ids=names)
def test_a_training_preset_fits_together(path):
    raw = load_yaml(path)
    skip_without_suite(raw)
    settings = from_dict(training_class(raw), raw)
    settings.population()
    small = quick(settings)
    assert small.train.num_updates > 1
    assert_tiny(small, small.train.total_timesteps, small.seeds)


@pytest.mark.parametrize("path", presets("sweep"))
def test_a_sweep_preset_fits_together(path):
    raw = load_yaml(path)
    settings = from_dict(sweep_class(raw), raw)
    assert make_objective(settings).start().frames > 0
    small = quick(settings)
    make_objective(small).start()
    frames = small.game.steps if hasattr(small, "game") else small.train.total_timesteps
    assert_tiny(small, frames, small.sweep.trials * small.sweep.seeds)


def skip_without_suite(raw):
    suite = str(raw.get("task", {}).get("env", "")).partition("/")[0]
    if suite in SUITES:
        pytest.importorskip(suite, reason=f"needs pip install 'metaevo[{suite}]'")


def quick(settings):
    return from_dict(type(settings), quickened(to_dict(settings)))


def assert_tiny(settings, frames_per_agent, agents):
    assert settings.run.quick
    assert agents <= 64
    assert frames_per_agent <= 250_000
