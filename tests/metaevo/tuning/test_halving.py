import numpy as np
import pytest

from metaevo.config import from_dict
from metaevo.evolution.problem import Purpose, keys_for
from metaevo.runs.terminal import Progress
from metaevo.tasks.agents import Agents
from metaevo.tasks.population import Population
from metaevo.tuning.config import SweepConfig
from metaevo.tuning.samplers import rungs
from metaevo.tuning.study import Trial
from tests.metaevo import evolving

RATES = [0.5, 0.05, 0.2, 0.0, 0.3, 0.0, 0.7, 0.1, 0.0]
RATE, SEEDS, STEPS = "hyperparams.learning_rate", 2, 10
SETTINGS = {
    "learner": "q_learning",
    "task": {"env": "GridWorld", "env_params": {"size": 4, "max_steps_in_episode": 20}},
    "train": {"total_timesteps": 90 * STEPS, "num_steps": STEPS},
    "fitness": {"mean_return": 0.0, "reward_per_step": 1.0},
    "space": {RATE: {"uniform": [0, 1]}},
}


class Study:
    """Keeps what it is told, and stops trials as a function says."""

    def __init__(self, should_prune):
        self.should_prune, self.told = should_prune, {}

    def tell(self, trial):
        assert trial.number not in self.told
        self.told[trial.number] = trial


def objective_of(**sweep):
    sweep = {"seeds": SEEDS, "confirm_seeds": 0, **sweep}
    return evolving.objective_of({**SETTINGS, "sweep": sweep})


def train(rates, should_prune=lambda trial, step, value: False, **sweep):
    study, frames = Study(should_prune), []
    bar = Progress(disable=True)
    bar.update = frames.append
    batch = [Trial(number, {RATE: rate}) for number, rate in enumerate(rates)]
    objective_of(**sweep).run(batch, study, bar)
    return study.told, sum(frames)


def test_rungs():
    def of(**settings):
        return rungs(from_dict(SweepConfig, settings))

    assert of() == [1]
    assert of(scheduler="successive_halving", eta=2, min_fraction=0.125) == [1, 2, 4, 8]
    assert of(scheduler="hyperband", eta=3, min_fraction=1 / 81) == [1, 3, 9, 27, 81]


@pytest.mark.long
def test_compute_is_counted_and_survivors_are_untouched():
    reported = {1: {}, 3: {}, 9: {}}
    left = {1: {0, 6, 4}, 3: {6}, 9: {6}}

    def should_prune(trial, step, value):
        reported[step][trial.number] = value
        return trial.number not in left[step]

    told, frames = train(RATES, should_prune, scheduler="successive_halving", min_fraction=1 / 9)
    # 9 trials x 10 updates, 3 x 20 more, 1 x 60 more, of two seeds each
    assert frames == (9 * 10 + 3 * 20 + 1 * 60) * STEPS * SEEDS
    assert frames == sum(trial.frames for trial in told.values())
    assert {step: set(values) for step, values in reported.items()} == {
        1: set(range(9)), 3: left[1], 9: left[3],
    }  # fmt: skip
    assert [number for number, trial in told.items() if trial.outcome == "complete"] == [6]
    whole, _ = train(RATES)
    assert told[6] == whole[6]
    objective = objective_of()
    population = objective.start().population
    settings = [objective.settings_of({RATE: rate}).hyperparams for rate in RATES]
    agents = population.init(keys_for(0, Purpose.TUNING, SEEDS), settings)
    first = population.scores(population.advance(agents, 10)).mean(axis=1)
    np.testing.assert_allclose([reported[1][n] for n in range(9)], first)


@pytest.mark.parametrize(
    ("diverged", "scores", "outcomes", "frames"),
    [
        ([0, SEEDS], [[1.0] * SEEDS] * 2, ["complete", "pruned"], [90, 45]),
        ([0, 0], [[np.nan] * SEEDS] * 2, ["pruned", "pruned"], [90, 90]),  # no episode has ended
    ],
)
def test_a_trial_that_diverges_is_stopped_and_one_without_a_score_continues(
    monkeypatch, diverged, scores, outcomes, frames
):
    by_seed = np.array(diverged)[:, None] / SEEDS * np.ones(SEEDS)
    found = property(lambda self: by_seed[: len(self.rows.finite) // SEEDS])
    monkeypatch.setattr(Agents, "diverged", found)
    monkeypatch.setattr(Population, "scores", lambda self, agents: np.array(scores))
    told, _ = train([0.5, 0.5], scheduler="successive_halving", eta=2, min_fraction=0.5)
    assert [told[n].outcome for n in (0, 1)] == outcomes
    assert [told[n].diverged for n in (0, 1)] == diverged
    assert [told[n].frames for n in (0, 1)] == [each * STEPS * SEEDS for each in frames]


def test_the_objective_of_a_trial():
    scores = np.array([4.0, 1.0, 2.0, 9.0])
    assert objective_of(statistic="mean").value(scores) == 4.0
    assert objective_of(statistic="iqm").value(scores) == 3.0
    assert objective_of().value(np.array([1.0, np.nan])) is None
