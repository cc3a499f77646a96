"""Successive halving and Hyperband: counted compute, the best survive, survivors are untouched."""

import numpy as np
import pytest

from metaevo.config import from_dict
from metaevo.studies.sweeps import make_objective, sweep_class
from metaevo.tasks.population import Population
from metaevo.tuning.config import SweepConfig
from metaevo.tuning.objective import Watch, statistic
from metaevo.tuning.samplers import expected_share, rungs
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


def config(**settings):
    return from_dict(SweepConfig, settings)


def test_rungs_and_the_share_of_training():
    halving = config(scheduler="successive_halving", eta=2, min_fraction=0.125)
    assert rungs(halving) == [1, 2, 4, 8]
    # 8 trials an eighth, 4 another eighth, 2 another quarter, 1 another half: 2.5 trainings of 8.
    assert expected_share(halving) == pytest.approx((8 / 8 + 4 / 8 + 2 / 4 + 1 / 2) / 8)
    assert rungs(config(scheduler="hyperband", eta=3, min_fraction=1 / 81)) == [1, 3, 9, 27, 81]
    # Li et al. 2018, table 1: n_i and r_i of the brackets s = 4, ..., 0; n_i are rounded there.
    table = [
        ([81, 27, 9, 3, 1], [1, 3, 9, 27, 81]),
        ([34, 34 / 3, 34 / 9, 34 / 27], [3, 9, 27, 81]),
        ([15, 5, 15 / 9], [9, 27, 81]),
        ([8, 8 / 3], [27, 81]),
        ([5], [81]),
    ]
    cost = sum(np.dot(n, np.diff(r, prepend=0)) for n, r in table)
    share = cost / (81 * sum(n[0] for n, _ in table))
    hyperband = config(scheduler="hyperband", eta=3, min_fraction=1 / 81)
    assert expected_share(hyperband) == pytest.approx(share)
    assert rungs(config()) == [1]
    assert expected_share(config()) == 1


def train(rates, lengths=None, should_prune=lambda trial, step, value: False, **sweep):
    """Train trials; their outcomes by number, and the environment steps that it took."""
    raw = {**SETTINGS, "sweep": {"seeds": SEEDS, "confirm_seeds": 0, **sweep}}
    objective = make_objective(from_dict(sweep_class(raw), raw))
    outcomes, frames = {}, []
    watch = Watch(
        lambda trial, outcome: outcomes.setdefault(trial.number, outcome),
        should_prune,
        frames.append,
    )
    lengths = lengths or [90] * len(rates)
    objective.run(
        [
            Trial(number, {RATE: rate, "train.total_timesteps": length * STEPS})
            for number, (rate, length) in enumerate(zip(rates, lengths, strict=True))
        ],
        watch,
    )
    return outcomes, sum(frames), objective


@pytest.mark.long
def test_compute_is_counted_and_survivors_are_untouched():
    """Stop all but the three best at the first rung, and all but the best at the second one."""
    reported = {1: {}, 3: {}, 9: {}}
    left = {1: {0, 6, 4}, 3: {6}, 9: {6}}

    def should_prune(trial, step, value):
        reported[step][trial.number] = value
        return trial.number not in left[step]

    outcomes, frames, objective = train(
        RATES, None, should_prune, scheduler="successive_halving", min_fraction=1 / 9
    )
    # 9 trials x 10 updates, 3 x 20 more, 1 x 60 more, of two seeds each
    assert frames == (9 * 10 + 3 * 20 + 1 * 60) * STEPS * SEEDS
    assert frames == sum(outcome.frames for outcome in outcomes.values())
    assert sorted(outcome.fraction for outcome in outcomes.values()) == pytest.approx(
        [1 / 9] * 6 + [1 / 3] * 2 + [1.0]
    )
    assert {n: set(values) for n, values in reported.items()} == {
        1: set(range(9)), 3: left[1], 9: left[3],
    }  # fmt: skip
    assert [n for n, each in outcomes.items() if each.outcome == "complete"] == [6]
    whole, *_ = train(RATES)
    assert outcomes[6] == whole[6]
    agents = objective.program(objective.settings_of({})).init(
        objective.keys, [objective.settings_of({RATE: rate}).hyperparams for rate in RATES]
    )
    population = objective.program(objective.settings_of({}))
    first = population.scores(population.advance(agents, 10)).mean(axis=1)
    np.testing.assert_allclose([reported[1][n] for n in range(9)], first)


@pytest.mark.long
def test_trials_of_different_length_share_the_rungs():
    steps = []
    outcomes, frames, _ = train(
        [0.5, 0.5], [90, 45], lambda trial, step, value: bool(steps.append(step)), eta=2,
        min_fraction=0.5, scheduler="successive_halving",
    )  # fmt: skip
    assert sorted(steps) == [1, 1, 2, 2]
    assert [outcomes[n].frames for n in range(2)] == [90 * STEPS * SEEDS, 45 * STEPS * SEEDS]
    assert frames == (90 + 45) * STEPS * SEEDS


def test_a_trial_that_diverges_is_stopped(monkeypatch):
    monkeypatch.setattr(
        Population, "diverged",
        lambda self, agents: np.arange(agents.settings)[:, None] + np.zeros(SEEDS) == 1,
    )  # fmt: skip
    halving = {"scheduler": "successive_halving", "eta": 2, "min_fraction": 0.5}
    outcomes, *_ = train([0.5, 0.5, 0.5], **halving)
    assert [outcomes[n].diverged for n in (0, 1)] == [0, SEEDS]
    assert [outcomes[n].fraction for n in (0, 1)] == [1, 0.5]
    assert outcomes[1].outcome == "pruned"


def test_a_trial_without_a_score_continues(monkeypatch):
    """As where no episode ends in the first rung."""
    halving = {"scheduler": "successive_halving", "eta": 2, "min_fraction": 0.25}
    monkeypatch.setattr("metaevo.training.sweeps.statistic", lambda scores, config: None)
    outcomes, *_ = train(RATES[:2], None, lambda *_: pytest.fail("has a score"), **halving)
    assert [outcomes[n].fraction for n in (0, 1)] == [1, 1]


def test_objective():
    scores = np.array([4.0, 1.0, 2.0, 9.0])
    assert statistic(scores, config(statistic="mean")) == 4.0
    assert statistic(scores, config(statistic="iqm")) == 3.0
    assert statistic(scores, config(statistic="quantile", quantile=0.0)) == 1.0
    assert statistic(scores, config(statistic="quantile", quantile=0.5)) == 3.0
    assert statistic(np.array([1.0, np.nan]), config()) is None
