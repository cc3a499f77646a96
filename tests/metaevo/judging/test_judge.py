import jax
import jax.numpy as jnp
import numpy as np
import pytest

import metaevo
from metaevo.config import ConfigError
from metaevo.evolution.problem import Purpose, keys_for
from metaevo.judging.judge import Judgement, run
from metaevo.judging.scores import UnfinishedError
from metaevo.parts import ValueLossNetwork
from metaevo.studies.settings import EvaluationConfig
from metaevo.tasks.problem import Contender
from purerl import envs, q_learning
from purerl.parts import losses
from tests.metaevo.toy import GRID, TRAIN, q_problem, untuned

SPACE = {"learning_rate": {"log_uniform": [0.05, 1.0]}}
BUDGET = metaevo.Budget(settings=4, screening_seeds=2, finalists=3, selection_seeds=2, seeds=3)


@pytest.fixture(scope="module")
def problem():
    return q_problem()


@pytest.fixture(scope="module")
def rivals(problem):
    found = Contender("learned", problem, problem.init(jax.random.key(0)), "learned")
    return [found, *problem.contenders()]


@pytest.mark.long
def test_scores_are_those_of_training_by_hand(rivals):
    scores = metaevo.judge(rivals, BUDGET, space=SPACE)
    assert scores.screening.shape == (4, 1, 5, 2)
    assert (scores.finalists[:, 0, 0] == 0).all()
    env, env_params = envs.make("GridWorld", observations="index", **GRID)
    learner = q_learning.QLearning(q_learning.Config(**TRAIN), env, value_loss=losses.huber)
    place, index = 2, int(scores.finalists[2, 0, 1])
    names, settings = scores.hyperparams, scores.settings[place, index]
    own = {name: value for name, value in zip(names, settings, strict=True) if np.isfinite(value)}
    hyperparams = q_learning.Hyperparams(epsilon_start=0.1).replace(**own)
    key = jax.random.fold_in(keys_for(0, Purpose.HELD_OUT, 3)[1], 0)
    sums = jax.jit(learner.train)(key, hyperparams, None, env_params).episodes
    expected = jnp.sum(sums.rewards) / jnp.sum(sums.steps)
    np.testing.assert_allclose(scores.held_out[place, 0, 1, 1], expected, rtol=1e-4)


@pytest.mark.long
def test_an_interrupted_judgement_goes_on(rivals, tmp_path):
    path = tmp_path / "scores.npz"
    whole = metaevo.judge(rivals, BUDGET, space=SPACE)
    first = Judgement(rivals, BUDGET, space=SPACE)
    steps = first.steps()
    assert [next(steps), next(steps)] == [1, 2]
    first.save(path)
    with pytest.raises(UnfinishedError):
        metaevo.Scores.load(path)
    trained = []
    resumed = metaevo.judge(rivals, BUDGET, space=SPACE, path=path, progress=trained.append)
    np.testing.assert_array_equal(resumed.held_out, whole.held_out)
    assert sum(trained) == TRAIN["total_timesteps"] * 2 * BUDGET.agents
    with pytest.raises(ConfigError, match="other contenders or settings"):
        metaevo.judge(rivals, BUDGET, space={"learning_rate": [0.1, 0.2]}, path=path)
    moved = jax.tree.map(lambda leaf: leaf + 1, rivals[0].meta_params)
    other = rivals[0]._replace(meta_params=moved)
    for wrong in (other, rivals[0]._replace(name="other")):
        with pytest.raises(ConfigError, match="other contenders or settings"):
            metaevo.judge([wrong, *rivals[1:]], BUDGET, space=SPACE, path=path)
    # the end of a run replaces the judgement of an evolution that went on
    anew = Judgement([other, *rivals[1:]], BUDGET, space=SPACE)
    again = run(anew, path, "judging", check_stop=lambda: None)
    assert not np.array_equal(again.held_out[0], whole.held_out[0])
    np.testing.assert_array_equal(again.held_out[1:], whole.held_out[1:])


@pytest.mark.long
def test_several_tasks_have_scores_and_scales_of_their_own():
    tasks = [metaevo.Task("GridWorld", {"size": 3, "slip_probability": p}) for p in (0.0, 0.3)]
    problem, budget = q_problem(*tasks), metaevo.Budget(0, seeds=64)
    assert problem.tasks == ["GridWorld", "GridWorld-2"]
    assert all(each.reference > each.random for each in problem.scales)
    rivals = [Contender("learned", problem, problem.init(jax.random.key(0)), "learned")]
    scores = metaevo.judge([*rivals, *problem.contenders(["huber"])], budget)
    assert scores.held_out.shape == (2, 2, 1, 64)
    assert (scores.scale[:, 1] > scores.scale[:, 0]).all()
    alone = metaevo.judge(q_problem(tasks[1]).contenders(["huber"]), budget)
    np.testing.assert_array_equal(scores.held_out[1, 1], alone.held_out[0, 0])
    assert (scores.held_out[1, 0] != scores.held_out[1, 1]).any()


def test_wrong_contenders_and_budgets_are_refused(problem, rivals):
    wrong = Contender("learned", problem, {"x": np.zeros(3)})
    for given, budget, message in (
        ([], EvaluationConfig(), "at least one"),  # such settings are a budget
        ([rivals[1], rivals[1]], BUDGET, "two are called 'squared'"),
        ([wrong], BUDGET, "learned is .*must be"),
        (rivals, {"seeds": 4}, "budget = .*must be"),
    ):
        with pytest.raises(ConfigError, match=message):
            metaevo.judge(given, budget)
    with pytest.raises(ConfigError, match=r"space\.gamm: no tunable"):
        metaevo.judge(rivals, BUDGET, space={"gamm": [0.9]})


@pytest.mark.parametrize(
    "changes",
    [
        {"hyperparams": {"gamma": 0.5}},
        {"fitness": {"mean_return": 0.0, "reward_per_step": 2.0}},
        {"tasks": [metaevo.Task("GridWorld", {"size": 3, "slip_probability": 0.5})]},
        {"tasks": [metaevo.Task("GridWorld", {"size": 3}, hyperparams={"gamma": 0.5})]},
        {"parts": ValueLossNetwork(hidden_sizes=(2,), error_scale=2.0)},
        {"fixed": {"make_optimizer": "sgd"}},
    ],
)
def test_a_judgement_goes_on_with_the_same_settings_only(changes, tmp_path):
    learner = "dqn" if "fixed" in changes else "q_learning"
    given = {
        "parts": ValueLossNetwork(hidden_sizes=(2,)),
        "tasks": [metaevo.Task("GridWorld", {"size": 3})],
        "train": {"total_timesteps": 2000, "num_steps": 100},
    }
    given["train"] |= {"learning_starts": 200} if learner == "dqn" else {}
    numbers = metaevo.LearnerProblem(learner, **given).init(jax.random.key(0))

    def judgement(**others):
        problem = metaevo.LearnerProblem(learner, **{**given, **others})
        rivals = [Contender("learned", problem, numbers, "learned"), *problem.contenders()]
        return Judgement(rivals, metaevo.Budget(seeds=4))

    judgement().save(tmp_path / "scores.npz")
    judgement().restore(tmp_path / "scores.npz")
    with pytest.raises(ConfigError, match="other contenders or settings"):
        judgement(**changes).restore(tmp_path / "scores.npz")


@pytest.mark.parametrize("damage", [b"", b"no archive", None])
def test_a_damaged_file_is_refused_in_one_line(damage, tmp_path):
    path = untuned({"a": [1.0, 2.0], "b": [3.0, 4.0]}).save(tmp_path / "scores.npz")
    path.write_bytes(path.read_bytes()[:-60] if damage is None else damage)
    with pytest.raises(ConfigError, match=r"scores\.npz is not usable"):
        metaevo.Scores.load(path)
