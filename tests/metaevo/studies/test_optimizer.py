"""Evolved optimizers, compared with tuned hand-written ones."""

import shutil
from pathlib import Path

import pytest

import metaevo
from metaevo.config import ConfigError
from tests.metaevo import evolving

pytestmark = pytest.mark.long

EXAMPLE = Path(__file__).parents[3] / "examples/scheduled_adam.py"
TINY = """
learner: lpg
task: {env: GridWorld, env_params: {size: 2}}
train: {total_timesteps: 320, num_envs: 4, num_steps: 8}
hyperparams: {learning_rate: 1e-3}
fitness: {mean_return: 0, reward_per_step: 1}
strategy: {population_size: 4, sigma: 0.5}
evolution: {generations: 1, validation_seeds: 2, chunk_size: 1, num_devices: 1}
evaluation: {seeds: 2, settings: 2, finalists: 2, selection_seeds: 2,
             space: {learning_rate: [1e-3, 1e-2]}}
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    shutil.copy(EXAMPLE, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.filterwarnings("ignore:all candidates had the same")
def test_it_is_judged_against_tuned_optimizers(place):
    evolving.evolve(place, TINY, "--evolve", "scheduled_adam.py")
    scores = metaevo.Scores.load(place / "run" / "scores.npz")
    assert scores.contenders == ("learned", "adam", "sgd", "momentum", "rmsprop")
    tried = dict(zip(scores.contenders, scores.settings[:, 1:, 0], strict=True))
    assert set(tried["learned"]) == {1e-3, 1e-2}
    assert (tried["momentum"] >= 1e-4).all()
    assert tried["momentum"].max() > 1e-2  # its own range
    assert (place / "run" / "figures" / "optimizer.png").is_file()
    assert "Held-out comparison" in (place / "run" / "report.html").read_text()


def study_of(evolve, evaluation, **others):
    return evolving.study_of({"evolve": evolve, "evaluation": evaluation, **others})


def ranges(study):
    """The ranges of every hand-written contender, in addition to the common ones."""
    rivals = study.settings.evaluation.contenders_of(study.problem)
    return {each.name: each.ranges for each in rivals}


RATES = {"learning_rate": {"log_uniform": [1e-4, 1.0]}}


@pytest.mark.parametrize(
    ("evaluation", "names", "momentum"),
    [
        ({"contenders": ["adam"]}, {"adam"}, None),
        ({"contenders": ["rmsprop", "momentum"]}, {"rmsprop", "momentum"}, RATES),
        ({"own": {"momentum": {"learning_rate": [0.1]}}}, None, {"learning_rate": [0.1]}),
        ({}, None, RATES),
    ],
)
def test_contenders_and_their_ranges_can_be_named(place, evaluation, names, momentum):
    found = ranges(study_of("scheduled_adam.py", evaluation))
    assert names is None or set(found) == names
    assert found.get("momentum") == momentum
    assert found.get("adam", {}) == {}


def test_a_loss_that_has_a_slope_is_tuned_over_it():
    options = {"learner": "q_learning", "task": {"env": "GridWorld"}}
    found = ranges(study_of("value_loss", {}, **options))
    assert (set(found["squared"]), set(found["sloped_squared"])) == (set(), {"loss_slope"})


@pytest.mark.parametrize(
    ("evaluation", "text"),
    [
        ({"contenders": ["adamm"]}, r"evaluation\.contenders: .*adamm"),
        ({"own": {"sgdd": {}}}, r"evaluation\.own: .*sgdd"),
        ({"own": {"momentum": {"rate": [1]}}}, r"evaluation\.space\.rate: no tunable"),
        ({"space": {"rate": [1]}}, r"evaluation\.space\.rate: no tunable"),
        ({"space": {"learning_rate": {"uniform": [1, 0]}}}, r"evaluation\.space\.learning_rate"),
    ],
)
def test_invalid_tuning_spaces_are_refused(place, evaluation, text):
    space = {"learning_rate": [1e-3, 1e-2]}
    with pytest.raises(ConfigError, match=text):
        study_of("scheduled_adam.py", {"space": space, **evaluation}).check()
