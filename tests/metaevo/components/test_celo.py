"""Celo: its authors' updates, the scheduler's inputs, and training with it."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metaevo.components import celo, registry
from purerl.learners import LEARNERS
from purerl.ppo import Hyperparams
from purerl.types import Context
from tests.metaevo.components.celo_steps import CASES, LOSSES, SHAPES, example, our_updates

RECORDED = json.loads((Path(__file__).parent / "celo_updates.json").read_text(encoding="utf-8"))


def largest_error(found, expected):
    """Over the arrays, relative to the largest step of each."""
    errors = []
    for name in SHAPES:
        a, b = (np.array([step[name] for step in steps]) for steps in (found, expected))
        errors.append(np.abs(a - b).max() / np.abs(b).max())
    return max(errors)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_updates_match_the_authors_code(number):
    """The last digits are lost when their step is subtracted from parameters of 0.3."""
    case, expected = CASES[number], RECORDED[number]
    assert largest_error(our_updates(case, case.theta()), expected) < 2e-5
    changed = case.theta()
    changed["rnn_params"]["rnn/linear"]["b"] += 0.01
    assert largest_error(our_updates(case, changed), expected) > 2e-4


def test_weights_without_effect_are_left_out():
    case = CASES[1]
    changed = case.theta()
    for name in ("linear", "rnn_to_controls"):
        changed["rnn_params"][name]["w"] += 1.0
    changed["ff_mod_stack"]["~"]["w2"][..., 2] += 1.0
    assert largest_error(our_updates(case, changed), RECORDED[1]) < 2e-5


def test_it_has_35803_numbers():
    """Of which the LSTM 33,024 and the network of each parameter 154."""
    made = jax.eval_shape(celo.make(celo.Config()).init, jax.random.key(0))
    assert sum(leaf.size for leaf in jax.tree.leaves(made)) == 35803
    assert sum(leaf.size for leaf in jax.tree.leaves(made["lstm"])) == 33024


def updates(context, losses, init_key=0):
    """The updates with random weights of so many steps."""
    component = celo.make(celo.Config(4, 3))
    optimizer = component.apply(component.init(jax.random.key(init_key)), context)
    params, gradients = example()
    state, found = optimizer.init(params), []
    for loss, gradient in zip(losses, gradients, strict=False):
        step, state = optimizer.update(gradient, state, params, loss=loss)
        found.append(np.asarray(step["kernel"]))
    return np.stack(found)


def test_steps_depend_on_training_length_and_loss():
    context = Context(Hyperparams(), num_updates=jnp.int32(2), num_epochs=3, num_minibatches=2)
    before = updates(context, LOSSES)
    assert np.isfinite(before).all()
    for changes in ({"num_updates": 4}, {"num_epochs": 5}, {"num_minibatches": 5}):
        after = updates(context.replace(**changes), LOSSES)
        assert (after[1:] != before[1:]).any(axis=(1, 2)).all()
    same = updates(context, [0.0] * 4)
    assert (same[3] != before[3]).any()
    np.testing.assert_array_equal(same, updates(context, [None] * 4))  # no loss is a constant one
    hyperparams = Hyperparams(learning_rate=1.0, max_grad_norm=1e-6)
    unread = updates(context.replace(hyperparams=hyperparams), LOSSES)
    np.testing.assert_array_equal(unread, before)


def test_only_ppo_passes_the_loss():
    assert {name for name, entry in LEARNERS.items() if entry.told >= celo.TOLD} == {"ppo"}
    assert "celo" in registry.known("make_optimizer")
