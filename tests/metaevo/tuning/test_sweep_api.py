import json
import math

import numpy as np
import pytest

import metaevo
from metaevo.config import ConfigError
from metaevo.tuning import report

SPACE = {"x": {"uniform": [0, 3]}, "n": {"integer": [1, 8]}, "kind": ["good", "bad"]}


def value_of(params):
    return -((params["x"] - 1) ** 2) - 0.01 * params["n"] - (params["kind"] == "bad")


@pytest.fixture(autouse=True)
def no_figures(monkeypatch):
    monkeypatch.setattr(report, "draw", lambda study, directory: [])


def test_a_function_without_a_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = metaevo.sweep(value_of, SPACE, trials=48, seed=1)
    assert [trial.number for trial in result.trials] == list(range(48))
    assert all(trial.value == value_of(trial.params) for trial in result.trials)
    assert result.value == result.best.value == max(trial.value for trial in result.trials)
    assert result.best.params["kind"] == "good"
    assert abs(result.best.params["x"] - 1) < 0.5
    assert sum(result.importance.values()) == pytest.approx(1)
    assert result.importance["x"] == max(result.importance.values())
    rows = result.table()
    assert {"trial", "outcome", "value", "x", "n", "kind"} <= rows[0].keys()
    assert not list(tmp_path.iterdir())
    again = metaevo.sweep(value_of, SPACE, trials=48, seed=1)
    assert again.table() == rows


def test_a_function_with_a_directory_is_resumed(tmp_path):
    path, calls = tmp_path / "run", []

    def interrupted(params):
        calls.append(params)
        if len(calls) == 4:
            raise RuntimeError("broken")
        return value_of(params)

    numpy = {"trials": np.int64(6), "seed": np.int64(0)}  # scalars of NumPy are numbers
    with pytest.raises(RuntimeError, match="broken"):
        metaevo.sweep(interrupted, SPACE, **numpy, sampler="sobol", run_dir=path)
    assert len((path / "trials.csv").read_text().splitlines()) == 4  # as far as it came
    result = metaevo.sweep(interrupted, SPACE, trials=6, sampler="sobol", run_dir=path, resume=True)
    assert len(calls) == 7
    whole = metaevo.sweep(value_of, SPACE, trials=6, sampler="sobol")
    settings = [sorted(str(trial.params) for trial in each.trials) for each in (result, whole)]
    assert settings[0] == settings[1]
    assert [trial.number for trial in result.trials] == [0, 1, 2, 4, 5, 6]  # 3 was killed
    assert result.path == path
    assert (path / "report.html").exists()
    assert len((path / "trials.csv").read_text().splitlines()) == 7


def test_settings_that_diverge_and_spaces_that_are_wrong():
    result = metaevo.sweep(lambda params: math.nan, {"x": [1, 2]}, trials=2, sampler="grid")
    assert [trial.outcome for trial in result.trials] == ["pruned"] * 2
    assert result.best is result.value is None
    assert result.importance == {}
    with pytest.raises(ConfigError, match="nothing to try"):
        metaevo.sweep(value_of, {})
    with pytest.raises(ConfigError, match="low must be less"):
        metaevo.sweep(value_of, {"x": {"uniform": [2, 1]}})


LEARNER = {
    "learner": "q_learning",
    "env": "GridWorld",
    "env_params": {"size": 4, "max_steps_in_episode": 20},
    "train": {"total_timesteps": 900, "num_steps": 100},
    "fitness": {"mean_return": 0.0, "reward_per_step": 1.0},
}
RATES = {"hyperparams.learning_rate": {"log_uniform": [0.01, 0.9]}}


@pytest.mark.long
def test_a_learner_gives_the_same_with_and_without_a_directory(tmp_path):
    config = metaevo.SweepConfig(seeds=2, confirm_seeds=2)
    options = {"trials": 3, "sampler": "random", "config": config, "seed": 3}
    alone = metaevo.sweep(LEARNER, RATES, **options)
    kept = metaevo.sweep(LEARNER, RATES, run_dir=tmp_path / "run", **options)
    assert [trial.params for trial in alone.trials] == [trial.params for trial in kept.trials]
    for ours, theirs in zip(alone.trials, kept.trials, strict=True):
        assert ours.scores == theirs.scores
        assert ours.value == pytest.approx(sum(ours.scores) / 2)
    result = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    assert len(result["variants"][0]["scores"]) == 2
    # the value is that of the winner on fresh seeds, not the lucky one of the search
    assert alone.value == kept.value == np.mean(result["variants"][0]["scores"])
    assert alone.value != alone.best.value == result["search_value"]
