from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import metaevo
from metaevo.training.settings import title_of

SIZES = {
    "env": "GridWorld",
    "env_params": {"size": 3},
    "train": {"total_timesteps": 640, "num_steps": 64},
    "hyperparams": {"learning_rate": 0.3},
    "seeds": 3,
    "fitness": {"evaluation_return": 1.0, "evaluations": 2, "evaluation_episodes": 2},
}


@pytest.fixture(scope="module")
def result():
    return metaevo.train("q_learning", **SIZES)


def test_curves_and_scores_are_of_every_agent(result):
    assert result.returns.shape == (3, 10)
    assert result.steps.tolist() == list(range(64, 641, 64))
    assert result.policies.q.shape[0] == 3
    assert np.isfinite(result.scores).all()
    assert not result.diverged.any()
    assert result.path is None
    assert len(table := result.table()) == 30
    numbers = {"return": result.returns[1, 4], "evaluation_return": result.evaluations[1, 4]}
    assert table[14] == pytest.approx({"seed": 1, "steps": 320, **numbers})
    assert np.isfinite(result.evaluations).all(axis=0).tolist() == [*[False] * 4, True] * 2


def test_a_run_directory_gives_the_same_and_is_loaded_again(result, tmp_path):
    with ThreadPoolExecutor() as pool:  # as a notebook's server or a web worker does
        kept = pool.submit(metaevo.train, "q_learning", **SIZES, run_dir=tmp_path / "run").result()
    loaded = metaevo.load_training(tmp_path / "run")
    for other in (kept, loaded):
        for name in ("steps", "returns", "evaluations", "scores"):
            np.testing.assert_array_equal(getattr(other, name), getattr(result, name))
        np.testing.assert_array_equal(other.policies.q, result.policies.q)
    assert (kept.path / "report.html").exists()
    with open(kept.path / "policies.npz", "r+b") as file:
        file.truncate(1000)
    with pytest.raises(metaevo.ConfigError, match="cut off or damaged"):
        metaevo.load_training(kept.path)
    (kept.path / "policies.npz").unlink()
    again = metaevo.train("q_learning", **SIZES, run_dir=kept.path, resume=True)
    np.testing.assert_array_equal(again.policies.q, result.policies.q)


@pytest.mark.parametrize(
    ("functions", "named"),
    [
        ({}, []),
        ({"value_loss": "clipped_squared"}, []),  # the default
        ({"policy_loss": "dpo", "make_optimizer": "runs/mine"}, ["dpo", "runs/mine"]),
    ],
)
def test_the_curve_of_a_report_names_the_functions_that_are_not_the_default(functions, named):
    title = title_of(metaevo.read_settings("train", {"learner": "ppo", **functions}))
    assert [word.strip(",") for word in title.split() if word not in ("ppo", "with")] == named


def flat(meta_params, context, prediction, target, old_prediction):
    return 0.0 * prediction


def test_a_function_fills_a_slot(result):
    assert np.ptp(result.policies.q) > 0
    flat_result = metaevo.train("q_learning", **SIZES, value_loss=flat)
    assert np.ptp(flat_result.policies.q) == 0  # nothing is learned


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"env": "GridWorl"}, "env"),
        ({"hyperparams": {"learning_rat": 1}}, "learning_rat"),
        ({"value_loss": "hube"}, "value_loss"),
        ({"value_loss": (flat, None), "run_dir": "never"}, "value_loss"),
        ({"resume": True}, "resume"),
        ({"run": {"num_devices": 999}}, "num_devices"),
    ],
)
def test_a_wrong_argument_is_named(changes, complaint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(metaevo.ConfigError, match=complaint):
        metaevo.train(**{"learner": "q_learning", **SIZES, **changes})
    assert not list(tmp_path.iterdir())
