"""Successive halving: counted compute, the best survive, survivors are untouched."""

import numpy as np
import pytest

from metaevo.config import from_dict
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.runs.progress import Progress
from metaevo.studies.sweeps import make_objective, sweep_class
from metaevo.tasks.population import Population
from metaevo.tuning.config import SweepConfig
from metaevo.tuning.samplers import rungs
from metaevo.tuning.study import Trial

RATES = [0.5, 0.05, 0.2, 0.0, 0.3, 0.0, 0.7, 0.1, 0.0]
RATE, SEEDS, STEPS = "hyperparams.learning_rate", 2, 10
SETTINGS = {
    "learner": "q_learning",
    "task": {"env": "GridWorld", "env_params": {"size": 4, "max_steps_in_episode": 20}},
    "train": {"total_timesteps": 90 * STEPS, "num_steps": STEPS},
    "fitness": {"mean_return": 0.0, "reward_per_step": 1.0},
    "space": {RATE: {"uniform": [0, 1]}, "train.total_timesteps": [90 * STEPS, 45 * STEPS]},
}


class Study:
    """Keeps what it is told, and stops trials as a function says."""

    def __init__(self, should_prune):
        self.should_prune, self.told = should_prune, {}

    def tell(self, trial):
        assert trial.number not in self.told
        self.told[trial.number] = trial


def objective_of(**sweep):
    raw = {**SETTINGS, "sweep": {"seeds": SEEDS, "confirm_seeds": 0, **sweep}}
    return make_objective(from_dict(sweep_class(raw), raw))


def train(rates, lengths=None, should_prune=lambda trial, step, value: False, **sweep):
    """Train trials; their results by number, and the environment steps that it took."""
    study = Study(should_prune)
    lengths = lengths or [90] * len(rates)
    batch = [
        Trial(number, {RATE: rate, "train.total_timesteps": length * STEPS})
        for number, (rate, length) in enumerate(zip(rates, lengths, strict=True))
    ]
    frames = []
    bar = Progress(disable=True)
    bar.update = frames.append
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
    """Stop all but the three best at the first rung, and all but the best at the second one."""
    reported = {1: {}, 3: {}, 9: {}}
    left = {1: {0, 6, 4}, 3: {6}, 9: {6}}

    def should_prune(trial, step, value):
        reported[step][trial.number] = value
        return trial.number not in left[step]

    told, frames = train(
        RATES, None, should_prune, scheduler="successive_halving", min_fraction=1 / 9
    )
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


def test_a_trial_that_diverges_is_stopped(monkeypatch):
    monkeypatch.setattr(
        Population, "diverged",
        lambda self, agents: np.arange(agents.settings)[:, None] + np.zeros(SEEDS) == 1,
    )  # fmt: skip
    halving = {"scheduler": "successive_halving", "eta": 2, "min_fraction": 0.5}
    told, _ = train([0.5, 0.5, 0.5], **halving)
    assert [told[n].diverged for n in (0, 1)] == [0, SEEDS]
    assert told[0].frames == 2 * told[1].frames
    assert told[1].outcome == "pruned"


def test_a_trial_without_a_score_continues(monkeypatch):
    """As where no episode ends in the first rung."""
    halving = {"scheduler": "successive_halving", "eta": 2, "min_fraction": 0.25}
    monkeypatch.setattr(Population, "scores", lambda self, agents: np.full((2, SEEDS), np.nan))
    told, _ = train(RATES[:2], None, lambda *_: pytest.fail("has a score"), **halving)
    assert [told[n].frames for n in (0, 1)] == [90 * STEPS * SEEDS] * 2
    assert told[0].outcome == "pruned"


def test_the_objective_of_a_trial():
    scores = np.array([4.0, 1.0, 2.0, 9.0])
    assert objective_of(statistic="mean").value(scores) == 4.0
    assert objective_of(statistic="iqm").value(scores) == 3.0
    assert objective_of().value(np.array([1.0, np.nan])) is None
