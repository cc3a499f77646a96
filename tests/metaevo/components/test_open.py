"""OPEN: its authors' updates, and what differs in an optimizer of our own.

The updates of six gradient steps by the authors' code are in open_updates.json. They were recorded
from `rl_optimizer/network.py` of https://github.com/AlexGoldie/rl-learned-optimization, with random
weights of both sizes and with a discrete and a continuous policy, by experiments/record_open.py at
commit 77ec890.
"""

import functools
import itertools
import json
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metaevo.components import open as open_component
from metaevo.components import published
from purerl.ppo import Hyperparams
from purerl.types import Context

RECORDED = json.loads((Path(__file__).parent / "open_updates.json").read_text(encoding="utf-8"))
UPDATES, EPOCHS = 3, 4
OBSERVATION, HIDDEN, ACTIONS = 3, (5, 4), 2
STEPS = 6
"""gradient steps, half an update of two minibatches"""
CONTEXT = Context(Hyperparams(max_grad_norm=0.5), num_updates=UPDATES, num_epochs=EPOCHS)


def count(made):
    """How many numbers a component has."""
    shapes = jax.eval_shape(made.init, jax.random.key(0))
    return sum(leaf.size for leaf in jax.tree.leaves(shapes))


class Case(NamedTuple):
    memory: int
    hidden: int
    continuous: bool

    @property
    def config(self):
        return open_component.Config(self.memory, self.hidden, published=True)

    def weights(self):
        """Random ones, in the authors' order."""
        size = count(open_component.make(self.config))
        return np.random.default_rng(size).normal(0, 0.4, size).astype(np.float32)


CASES = Case(8, 16, False), Case(16, 32, False), Case(8, 16, True)


def example(continuous):
    """Parameters of an actor and a critic; gradients, activity and place of each step."""
    rng = np.random.default_rng(0)

    def draw(size):
        trees = {}
        for name, outputs in (("actor", ACTIONS), ("critic", 1)):
            sizes = (OBSERVATION, *HIDDEN, outputs)
            trees[name] = {
                f"Dense_{i}": {
                    "kernel": rng.normal(0, size, shape).astype(np.float32),
                    "bias": rng.normal(0, size, shape[1:]).astype(np.float32),
                }
                for i, shape in enumerate(itertools.pairwise(sizes))
            }
        if continuous:
            trees["actor"]["log_std"] = rng.normal(0, size, ACTIONS).astype(np.float32)
        return trees

    def steps():
        for index in range(STEPS):
            gradients = draw(0.01 * 10 ** (index % 3))  # the largest are clipped
            gradients["actor"]["Dense_0"]["kernel"][0] = 0  # of an input that is zero
            activity = {
                name: [np.abs(rng.normal(size=n)).astype(np.float32) for n in (*HIDDEN, outputs)]
                for name, outputs in (("actor", ACTIONS), ("critic", 1))
            }
            activity["critic"][0][1] = 0  # dormant
            told = {"progress": index % UPDATES / UPDATES, "epoch": index % EPOCHS / EPOCHS}
            yield gradients, activity, told

    return draw(0.3), steps()


def ours(tree):
    """A tree of an actor and a critic as our network has it."""
    actor, critic = tree["actor"], tree["critic"]
    *names, head = (f"Dense_{i}" for i in range(len(HIDDEN) + 1))
    params = {
        "actor_torso": {name: actor[name] for name in names},
        "critic_torso": {name: critic[name] for name in names},
        "policy_head": actor[head],
        "value_head": critic[head],
    }
    return {"params": params | {name: actor[name] for name in actor.keys() & {"log_std"}}}


@functools.cache  # compiled once
def our_step(config):
    """Our gradient step, with the normal numbers as its last argument."""

    @jax.jit
    def step(weights, gradients, state, params, told, drawn):
        optimizer = open_component.make(config).apply(weights, CONTEXT)
        with mock.patch.object(jax.random, "normal", lambda key, shape: drawn.reshape(shape)):
            return optimizer.update(gradients, state, params, key=jax.random.key(0), **told)

    return step


def our_updates(case, weights, noise):
    """Our updates [P] in every step; `noise` [P] are the normal numbers that were drawn."""
    meta_params = published.unflatten(weights, case.config)
    params, steps = example(case.continuous)
    params, found = ours(params), []
    state = open_component.make(case.config).apply(meta_params, CONTEXT).init(params)
    for (gradients, activity, told), drawn in zip(steps, noise, strict=True):
        dormancy = {
            name: {
                f"Dense_{i}": jax.tree.map(
                    lambda x, a=each: jnp.broadcast_to(a / a.mean(), x.shape), tree[f"Dense_{i}"]
                )
                for i, each in enumerate(activity[name])
            }
            for name, tree in gradients.items()
        }
        if case.continuous:
            dormancy["actor"]["log_std"] = jnp.ones(ACTIONS)
        told["dormancy"] = ours(dormancy)
        updates, state = our_step(case.config)(
            meta_params, ours(gradients), state, params, told, drawn
        )
        params = jax.tree.map(jnp.add, params, updates)
        found.append(np.asarray(jax.flatten_util.ravel_pytree(updates)[0]))
    return found


@pytest.mark.parametrize("number", range(len(CASES)))
def test_updates_are_those_of_the_authors_code(number):
    """Six steps of OPEN's code, whose largest are 2e-3."""
    recorded = dict(RECORDED[number])
    updates, noise = recorded.pop("updates"), [*map(np.float32, recorded.pop("noise"))]
    case = Case(**recorded)
    assert case == CASES[number]
    found = our_updates(case, case.weights(), noise)
    np.testing.assert_allclose(found, updates, rtol=0, atol=1e-7)
    swapped = case.weights()
    swapped[[0, 1]] = swapped[[1, 0]]
    assert np.abs(np.subtract(our_updates(case, swapped, noise), updates)).max() > 1e-6


def test_it_has_1211_numbers():
    assert count(open_component.make(open_component.Config())) == 1211


def first_update(*, is_published, progress=0.5, epoch=0.5, dormancy=None, size=1e3, scale=1.0):
    """The first update with gradients of such a size, without clipping."""
    config = open_component.Config(published=is_published)
    weights = published.unflatten(scale * CASES[0].weights(), config)
    context = CONTEXT.replace(hyperparams=Hyperparams(max_grad_norm=1e12))
    optimizer = open_component.make(config).apply(weights, context)
    params = ours(example(continuous=False)[0])
    gradients = jax.tree.map(lambda x: size * (1 + x), params)
    told = {"progress": progress, "epoch": epoch, "dormancy": dormancy, "key": jax.random.key(0)}
    update = jax.jit(
        lambda told: optimizer.update(gradients, optimizer.init(params), params, **told)
    )
    return jax.tree.map(np.asarray, update(told)[0]["params"])


def test_our_own_is_the_published_one_but_for_clipping_and_the_ends_of_time():
    """And for logarithms of gradients near zero."""
    found = first_update(is_published=False)
    told = {"progress": 0.5 * (UPDATES - 1) / UPDATES, "epoch": 0.5 * (EPOCHS - 1) / EPOCHS}
    expected = first_update(is_published=True, **told)
    jax.tree.map(
        functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-8), found, expected
    )
    for name in told:
        assert (first_update(is_published=False, **{name: 0.0})["value_head"]["bias"]
                != found["value_head"]["bias"]).all()  # fmt: skip


def test_the_dormancy_of_heads_counts_in_the_published_one_only():
    ones = jax.tree.map(jnp.ones_like, ours(example(continuous=False)[0]))["params"]

    def steps_of(is_published, dormant=None):
        """Of the policy's head, which sees the others' in the mean of all steps."""
        none = {} if dormant is None else {dormant: jax.tree.map(jnp.zeros_like, ones[dormant])}
        found = first_update(is_published=is_published, dormancy={"params": ones | none})
        return found["policy_head"]["bias"]

    for is_published in (True, False):
        before = steps_of(is_published)
        assert (steps_of(is_published, "value_head") != before).all() == is_published
        assert (steps_of(is_published, "critic_torso") != before).all()


def test_steps_are_finite_whatever_the_weights():
    for size in (1e6, 0.0):
        found = first_update(is_published=False, epoch=None, size=size, scale=1e12)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found))
