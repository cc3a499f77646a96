"""`metaevo.train`: agents with hand-written or learned parts, with and without a run directory."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

import metaevo

SIZES = {
    "env": "GridWorld",
    "env_params": {"size": 3},
    "train": {"total_timesteps": 640, "num_steps": 64},
    "hyperparams": {"learning_rate": 0.3},
    "seeds": 3,
}


def squared(meta_params, context, prediction, target, old_prediction):
    del meta_params, context, old_prediction
    return 0.5 * (prediction - target) ** 2


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
    table = result.table()
    assert len(table) == 30
    assert table[11] == {"seed": 1, "steps": 128, "return": pytest.approx(result.returns[1, 1])}


def test_a_run_directory_gives_the_same_and_is_loaded_again(result, tmp_path):
    kept = metaevo.train("q_learning", **SIZES, run_dir=tmp_path / "run")
    loaded = metaevo.load_training(tmp_path / "run")
    for other in (kept, loaded):
        np.testing.assert_array_equal(other.steps, result.steps)
        np.testing.assert_allclose(other.returns, result.returns, rtol=1e-6)
        np.testing.assert_allclose(other.scores, result.scores, rtol=1e-6)
        np.testing.assert_array_equal(other.policies.q, result.policies.q)
    assert (kept.path / "report.html").exists()


def test_a_damaged_evaluation_is_refused(tmp_path):
    path = tmp_path / "run"
    metaevo.train("q_learning", **SIZES, run_dir=path)
    evaluation = json.loads((path / "evaluation.json").read_text())
    evaluation["variants"][1]["scores"].pop()
    (path / "evaluation.json").write_text(json.dumps(evaluation))
    with pytest.raises(metaevo.ConfigError, match="numbers of agents"):
        metaevo.load_training(path)


def test_a_function_in_a_slot_is_the_one_of_that_name(result):
    same = metaevo.train("q_learning", **SIZES, value_loss=squared)
    np.testing.assert_allclose(same.policies.q, result.policies.q, rtol=1e-4, atol=1e-6)
    other = metaevo.train("q_learning", **SIZES, value_loss="huber")
    assert not np.array_equal(other.policies.q, result.policies.q)


@pytest.mark.long
def test_a_learned_part_in_a_slot(tmp_path):
    problem = metaevo.LearnerProblem(
        "q_learning", evolve="value_loss", env="GridWorld", env_params={"size": 3}
    )
    found = metaevo.evolve(
        problem,
        strategy=metaevo.StrategyConfig(population_size=4),
        evolution=metaevo.EvolutionConfig(generations=0, validation_seeds=0),
    )
    found.save(tmp_path / "mine")
    by_name = metaevo.train("q_learning", **SIZES, value_loss=tmp_path / "mine")
    loaded = metaevo.train("q_learning", **SIZES, value_loss=metaevo.load(tmp_path / "mine"))
    np.testing.assert_array_equal(by_name.policies.q, loaded.policies.q)


def test_a_diverged_agent_has_no_score():
    def exploding(meta_params, context, prediction, target, old_prediction):
        del meta_params, context, old_prediction
        return jnp.exp(100.0 * (1.0 + prediction - target) ** 2)

    result = metaevo.train("q_learning", **SIZES, value_loss=exploding)
    assert result.diverged.all()
    assert np.isnan(result.scores).all()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"env": "GridWorl"}, "env"),
        ({"hyperparams": {"learning_rat": 1}}, "learning_rat"),
        ({"value_loss": "hube"}, "value_loss"),
        ({"value_loss": (squared, None), "run_dir": "never"}, "value_loss"),
        ({"resume": True}, "resume"),
        ({"run": {"num_devices": 999}}, "num_devices"),
        ({"run_dir": 5}, "run_dir = 5"),
    ],
)
def test_a_wrong_argument_is_named(changes, complaint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(metaevo.ConfigError, match=complaint):
        metaevo.train(**{"learner": "q_learning", **SIZES, **changes})
    assert not list(tmp_path.iterdir())
