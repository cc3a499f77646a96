"""Evolved optimizers, compared with tuned hand-written ones."""

import json
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

from metaevo.comparison import entries
from metaevo.config import ConfigError
from tests.metaevo import evolving

pytestmark = pytest.mark.long

EXAMPLE = Path(__file__).parents[3] / "examples/scheduled_adam.py"
TINY = """
learner: ppo
task: {env: CartPole-v1}
train: {total_timesteps: 64, num_envs: 2, num_steps: 16, update_epochs: 1, num_minibatches: 1,
        hidden_sizes: [4]}
hyperparams: {learning_rate: 1e-3}
strategy: {population_size: 4, sigma: 0.5}
evolution: {generations: 1, validation_seeds: 2, chunk_size: 1, num_devices: 1}
evaluation: {seeds: 2, sampler: grid, space: {learning_rate: [1e-3, 1e-2]},
             tuning_seeds: 1, final_seeds: 2}
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    shutil.copy(EXAMPLE, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_is_compared_with_tuned_optimizers(place):
    evolving.evolve(place, TINY, "--evolve", "scheduled_adam.py")
    result = json.loads((place / "run" / "evaluation.json").read_text())
    tuned = {row["function"]: row for row in result["variants"] if row["tuning_frames"]}
    assert list(tuned) == ["learned", "adam", "momentum", "rmsprop"]
    assert tuned["learned"]["settings"]["learning_rate"] in (1e-3, 1e-2)
    # Its own two rates, or the untuned one.
    assert tuned["momentum"]["settings"]["learning_rate"] in (1e-4, 1.0, 1e-3)
    assert result["best_hand_written"].removesuffix(" (tuned)") in ("adam", "momentum", "rmsprop")
    assert (place / "run" / "figures" / "optimizer.png").is_file()
    assert "Held-out comparison" in (place / "run" / "report.html").read_text()


def study_of(evolve, evaluation, **others):
    return evolving.study_of({"evolve": evolve, "evaluation": evaluation, **others})


def spaces(study):
    """What every hand-written contender is tuned over, without training any."""

    learned = jax.eval_shape(study.evolved.init, jax.random.key(0))
    found = entries.entries_of(study.experiment, {"learned": learned})
    return {name: each.space.to_plain() for name, each in found.items()}


def test_contenders_can_be_named(place):
    assert set(spaces(study_of("scheduled_adam.py", {"contenders": ["adam"]}))) == {
        "learned",
        "adam",
    }
    study = study_of("scheduled_adam.py", {"contenders": ["rmsprop", "momentum"]})
    assert set(spaces(study)) == {"learned", "momentum", "rmsprop"}
    with pytest.raises(ConfigError, match=r"evaluation\.contenders.*adamm"):
        study_of("scheduled_adam.py", {"contenders": ["adamm"]}).check()


RATE = "hyperparams.learning_rate"


def test_each_is_tuned_over_its_own_rates(place):
    space = {"space": {"learning_rate": {"log_uniform": [1e-4, 1e-2]}}}
    found = spaces(study_of("scheduled_adam.py", space))
    assert found["learned"] == found["adam"] == {RATE: {"log_uniform": [1e-4, 1e-2]}}
    assert found["momentum"] == {RATE: {"log_uniform": [1e-4, 1.0]}}
    own = {"momentum": {"learning_rate": {"log_uniform": [0.1, 1.0]}}}
    found = spaces(study_of("scheduled_adam.py", {**space, "own": own}))
    assert found["momentum"] == {RATE: {"log_uniform": [0.1, 1.0]}}
    grid = {"sampler": "grid", "space": {"learning_rate": [1e-4, 1e-3, 1e-2]}}
    found = spaces(study_of("scheduled_adam.py", {**grid, "own": own}))
    np.testing.assert_allclose(found["momentum"][RATE]["choice"], [0.1, 0.1**0.5, 1.0])
    assert len(found["rmsprop"][RATE]["choice"]) == 3
    assert set(map(str, spaces(study_of("scheduled_adam.py", {})).values())) == {"{}"}


def test_a_loss_that_has_a_slope_is_tuned_over_it():
    evaluation = {"space": {"learning_rate": {"uniform": [0.1, 0.5]}}}
    options = {"learner": "q_learning", "task": {"env": "GridWorld"}}
    found = spaces(study_of("value_loss", evaluation, **options))
    assert set(found["squared"]) == {RATE}
    assert set(found["sloped_squared"]) == {RATE, "hyperparams.loss_slope"}


@pytest.mark.parametrize(
    ("evaluation", "text"),
    [
        ({"own": {"sgdd": {}}}, r"evaluation\.own: .*sgdd"),
        ({"own": {"momentum": {"rate": {}}}}, r"evaluation\.own: \['rate'\] are no hyperparams"),
        ({"own": {"momentum": {"momentum": {}}}}, r"\['momentum'\] are not in evaluation\.space"),
        (
            {"own": {"momentum": {"learning_rate": {"choice": [1.0]}}}},
            r"evaluation\.own\.learning_rate: must have 2 values",
        ),
    ],
)
def test_invalid_tuning_spaces_are_refused(place, evaluation, text):
    grid = {"learning_rate": [1e-3, 1e-2]}
    with pytest.raises(ConfigError, match=text):
        study_of("scheduled_adam.py", {"sampler": "grid", "space": grid, **evaluation}).check()
