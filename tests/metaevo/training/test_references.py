"""Scores on a distribution of tasks, relative to a reference that is trained on the same draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metaevo.evolution.evolution import Evolution
from metaevo.evolution.problem import draw_task
from metaevo.evolution.seeding import Purpose, key_for
from purerl.parts import optimizers
from tests.metaevo.training.test_tasks import LEARNS, SETTINGS, study_of, training_by_hand

POLES = {"poles": SETTINGS["tasks"]["poles"]}


RANDOM, FULL = 18.0, 30.0
"""A scale for poles, as `measure` returns it."""


@pytest.mark.long
def test_scores_are_relative_to_a_reference_with_the_same_task_and_keys():
    """One generation equals trainings by hand, of candidates and of Adam, except for rounding."""
    study = study_of(
        tasks=POLES,
        evolution={"reference_seeds": 2, "validation_seeds": 0},
    )
    problem = study.problem({"normalisation": {"random": [RANDOM], "reference": [FULL]}})
    settings = study.settings
    this = Evolution(problem, settings.strategy, settings.evolution, seed=7)
    _, metrics = this.run_block(this.init(), 1)

    key = jax.random.fold_in(key_for(7, Purpose.EVOLUTION), 0)
    ask_key, key, _ = jax.random.split(key, 3)
    population, _ = this.strategy.ask(ask_key, this.start().strategy)
    drawn, agents = draw_task(problem, key, 0), [jax.random.fold_in(key, each) for each in range(2)]
    by_hand = training_by_hand(study, drawn, make_optimizer=optimizers.adam)
    reference = np.mean([by_hand(each, None)[0] for each in agents])
    np.testing.assert_allclose(metrics["poles/reference"], [reference], rtol=1e-4)
    by_hand = training_by_hand(study, drawn, **study.evolved.functions())
    candidates = [jax.tree.map(lambda leaf, i=i: leaf[i], population) for i in range(4)]
    scores = [by_hand(agents[0], candidate)[0] for candidate in candidates]
    relative = (np.array(scores) - RANDOM) / max(reference - RANDOM, 0.1 * (FULL - RANDOM))
    np.testing.assert_allclose(metrics["fitness_mean"], [np.mean(relative)], rtol=1e-3)
    np.testing.assert_allclose(metrics["fitness_best"], [np.max(relative)], rtol=1e-3)
    assert metrics["frames"][0] == int(problem.frames_of(drawn)) * (4 + 2)


def test_the_scale_is_at_least_a_tenth_for_a_weak_reference():
    study = study_of(tasks=POLES, evolve="value_loss")
    problem = study.problem({"normalisation": {"random": [RANDOM], "reference": [FULL]}})
    meta_params, key = problem.init(jax.random.key(1)), jax.random.key(2)
    task = draw_task(problem, jax.random.key(3), 0)
    evaluate = jax.jit(problem.evaluate)
    score = evaluate(key, meta_params, task).fitness * (FULL - RANDOM)  # above random play
    for reference, span in [(FULL + 6.0, 18.0), (RANDOM + 3.0, 3.0), (RANDOM, 1.2), (0.0, 1.2)]:
        found = evaluate(key, meta_params, task, jnp.float32(reference)).fitness
        np.testing.assert_allclose(found, score / span, rtol=1e-5)


def test_a_reference_that_fails_scores_as_random_play():
    """It may do so on a draw with a huge step, which must not fail all candidates."""
    sample = {"hyperparams.learning_rate": {"choice": [1e30]}}
    study = study_of(tasks={"poles": {"env": "CartPole-v1", "sample": sample}})
    problem = study.problem({"normalisation": {"random": [RANDOM], "reference": [FULL]}})
    task = draw_task(problem, jax.random.key(3), 0)
    assert float(jax.jit(problem.reference)(jax.random.key(0), task)) == RANDOM


def test_references_on_one_task_have_a_measured_scale():
    """A single task has none without references."""
    assert "normalisation" not in study_of(tasks=POLES).measure()
    measured = study_of(tasks=POLES, **LEARNS, evolution={"reference_seeds": 1}).measure()
    (low,), (high,) = measured["normalisation"]["random"], measured["normalisation"]["reference"]
    assert high > low > 0
