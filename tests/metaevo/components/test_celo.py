"""Celo: its authors' updates, the scheduler's inputs, and training with it.

The updates of eight gradient steps by the authors' code are in celo_updates.json. They were
recorded with random weights from `celo/optimizers/celo.py` of https://github.com/amoudgl/celo at
32186aa, with https://github.com/google/learned_optimization at 66d9761, by
tests/metaevo/components/celo_steps.py at commit f44c1b19.
"""

import functools
import json
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metaevo.components import celo, published, registry
from purerl.learners import LEARNERS
from purerl.ppo import Hyperparams
from purerl.types import Context

RECORDED = json.loads((Path(__file__).parent / "celo_updates.json").read_text(encoding="utf-8"))
CONTEXT = Context(Hyperparams(), num_updates=2, num_epochs=3, num_minibatches=2)
LOSSES = 2.0, 1.5, 9.0, 1.2, -0.1, -0.5, 0.3, 0.2  # the third is clipped
SHAPES = {
    "bias": (5,),
    "convolution": (3, 2, 4, 2),
    "head": (5, 1),
    "kernel": (3, 5),
    "log_std": (1,),
    "scalar": (),
    "square": (3, 3),
    "zeros": (4,),
}
INPUT_SIZES = 1, 1, 1, 3, 1, 3, 1, 3, 1, 3, 3, 3, 3, 3
"""of the network, in the authors' order"""


class Case(NamedTuple):
    memory: int
    hidden: int

    @property
    def config(self):
        return celo.Config(*self)

    def theta(self):
        """Random weights as a file of the authors has them; the steps are large."""
        rng = np.random.default_rng(self.memory)
        memory, hidden = self

        def draw(*shape):
            return rng.normal(0, 0.5, shape).astype(np.float32)

        def dense(inputs, outputs):
            return {"b": draw(outputs), "w": 2 * draw(inputs, outputs) / np.float32(inputs**0.5)}

        network = {f"w0__{i}": draw(1, size, hidden) for i, size in enumerate(INPUT_SIZES)}
        network |= {"w1": draw(1, hidden, hidden), "w2": draw(1, hidden, 3)}
        network |= {f"b{i}": draw(1, size) for i, size in enumerate((hidden, hidden, 3))}
        rnn = {name: dense(18, memory) for name in ("linear", "linear_1", "linear_2")}
        rnn["rnn/linear"] = dense(2 * memory, 4 * memory)
        rnn |= {"rnn_to_controls": dense(memory, 1), "step_size": dense(memory, 1)}
        rnn["step_size"]["b"] += 6.0
        start = {"cell": draw(1, memory), "hidden": draw(1, memory)}
        return {"ff_mod_stack": {"~": network}, "lstm_init_state": start, "rnn_params": rnn}


CASES = Case(64, 4), Case(7, 5)


def example():
    """Parameters, and the gradients of a training."""
    rng = np.random.default_rng(0)

    def draw(size):
        return {
            name: np.asarray(rng.normal(0, size, shape), np.float32)
            for name, shape in SHAPES.items()
        }

    def steps():
        for index in range(len(LOSSES)):
            gradients = draw(1e-3 * 10.0 ** (index % 4))
            gradients["kernel"][0] = 0  # of an input that is zero
            if index == 5:
                gradients["square"] *= 1e5  # clipped
            yield gradients

    return draw(0.3) | {"zeros": np.zeros(4, np.float32)}, steps()


@functools.cache  # compiled once
def our_step(case):
    @jax.jit
    def step(meta_params, gradients, state, params, loss):
        optimizer = celo.make(case.config).apply(meta_params, CONTEXT)
        return optimizer.update(gradients, state, params, loss=loss)

    return step


def our_updates(case, theta):
    """In every step, by the arrays' names."""
    meta_params = published.celo_weights(theta)
    params, steps = example()
    state = celo.make(case.config).apply(meta_params, Context(None)).init(params)
    found = []
    for gradients, loss in zip(steps, LOSSES, strict=True):
        updates, state = our_step(case)(meta_params, gradients, state, params, loss)
        params = jax.tree.map(jnp.add, params, updates)
        found.append({name: np.ravel(update) for name, update in updates.items()})
    return found


def largest_error(found, expected):
    """Over the arrays, relative to the largest step of each."""
    errors = []
    for name in SHAPES:
        a, b = (np.array([step[name] for step in steps]) for steps in (found, expected))
        errors.append(np.abs(a - b).max() / np.abs(b).max())
    return max(errors)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_updates_are_those_of_the_authors_code(number):
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


def test_the_length_of_training_and_the_loss_count():
    before = updates(CONTEXT, LOSSES)
    assert np.isfinite(before).all()
    for changes in ({"num_updates": 4}, {"num_epochs": 5}, {"num_minibatches": 5}):
        after = updates(CONTEXT.replace(**changes), LOSSES)
        assert (after[1:] != before[1:]).any(axis=(1, 2)).all()
    same = updates(CONTEXT, [0.0] * 4)
    assert (same[3] != before[3]).any()
    np.testing.assert_array_equal(same, updates(CONTEXT, [None] * 4))  # no loss is a constant one
    hyperparams = Hyperparams(learning_rate=1.0, max_grad_norm=1e-6)
    unread = updates(CONTEXT.replace(hyperparams=hyperparams), LOSSES)
    np.testing.assert_array_equal(unread, before)


def test_only_ppo_tells_it_the_loss():
    assert {name for name, entry in LEARNERS.items() if entry.told >= celo.TOLD} == {"ppo"}
    assert "celo" in registry.known("make_optimizer")
