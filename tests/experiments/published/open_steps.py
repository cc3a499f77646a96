"""Six gradient steps of OPEN, whose updates by its authors' code are in open_updates.json.

They were recorded from `rl_optimizer/network.py` of
https://github.com/AlexGoldie/rl-learned-optimization, with random weights of both sizes and with a
discrete and a continuous policy, by experiments/record_open.py at commit 77ec890.
"""

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from experiments.published.open import Open
from metaevo.parts import parameters
from purerl.ppo import Hyperparams
from purerl.types import Context, PyTree

UPDATES, EPOCHS = 3, 4
OBSERVATION, HIDDEN, ACTIONS = 3, (5, 4), 2
STEPS = 6
"""gradient steps, half an update of two minibatches"""


class Case(NamedTuple):
    """What is recorded."""

    memory: int
    hidden: int
    continuous: bool

    @property
    def part(self) -> Open:
        """Our part."""
        return Open(self.memory, self.hidden)

    def weights(self) -> np.ndarray:
        """Return random weights in the authors' order."""
        size = ravel_pytree(self.part.init(jax.random.key(0)))[0].size
        return np.random.default_rng(size).normal(0, 0.4, size).astype(np.float32)

    def meta_params(self, weights: np.ndarray | None = None) -> PyTree:
        """Return weights as the part has them."""
        numbers = self.weights() if weights is None else weights
        return ravel_pytree(self.part.init(jax.random.key(0)))[1](jnp.float32(numbers))


CASES = Case(8, 16, False), Case(16, 32, False), Case(8, 16, True)


class Step(NamedTuple):
    """Inputs of a gradient step, by layers: 0, 1, ... and `log_std`."""

    gradients: dict[str, dict[str, PyTree]]
    activity: dict[str, list[np.ndarray]]
    """of the actor's and the critic's units"""
    update: int
    epoch: int


def example(continuous: bool) -> tuple[PyTree, Iterator[Step]]:
    """Return parameters of an actor and a critic, and the steps of a training."""
    rng = np.random.default_rng(0)

    def draw(size: float) -> PyTree:
        trees: dict[str, PyTree] = {}
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

    def steps() -> Iterator[Step]:
        for index in range(STEPS):
            gradients = draw(0.01 * 10 ** (index % 3))  # the largest are clipped
            gradients["actor"]["Dense_0"]["kernel"][0] = 0  # of an input that is zero
            activity = {
                name: [np.abs(rng.normal(size=n)).astype(np.float32) for n in (*HIDDEN, outputs)]
                for name, outputs in (("actor", ACTIONS), ("critic", 1))
            }
            activity["critic"][0][1] = 0  # dormant
            yield Step(gradients, activity, index % UPDATES, index % EPOCHS)

    return draw(0.3), steps()


def ours(tree: PyTree) -> PyTree:
    """Return a tree of an actor and a critic as our network has it."""
    actor, critic = tree["actor"], tree["critic"]
    names = [f"Dense_{i}" for i in range(len(HIDDEN))]
    head = f"Dense_{len(HIDDEN)}"
    params = {
        "actor_torso": {name: actor[name] for name in names},
        "critic_torso": {name: critic[name] for name in names},
        "policy_head": actor[head],
        "value_head": critic[head],
    }
    if "log_std" in actor:
        params["log_std"] = actor["log_std"]
    return {"params": params}


@functools.cache  # compiled once
def our_step(case: Case) -> Callable[..., Any]:
    """Return our gradient step, with the normal numbers as its last argument."""
    part = case.part
    context = Context(Hyperparams(max_grad_norm=0.5), num_updates=UPDATES, num_epochs=EPOCHS)

    @jax.jit
    def step(weights, gradients, state, params, dormancy, progress, epoch, drawn):
        def normal(key, shape):
            del key
            return drawn.reshape(shape)

        optimizer = part.apply(weights, context)
        here = context.replace(progress=progress, epoch=epoch)
        with (
            mock.patch.object(jax.random, "normal", normal),
            mock.patch.object(parameters, "dormancy", return_value=dormancy),
        ):
            return optimizer.update(gradients, state, params, context=here)

    made: Callable[..., Any] = step
    return made


def our_updates(case: Case, weights: np.ndarray, noise: list[np.ndarray]) -> list[np.ndarray]:
    """Return our updates [P] in every step; `noise` [P] are the normal numbers that were drawn."""
    update, meta_params = our_step(case), case.meta_params(weights)
    params, steps = example(case.continuous)
    params, found = ours(params), []
    state = case.part.apply(meta_params, Context(None)).init(params)
    for step, drawn in zip(steps, noise, strict=True):
        dormancy = {
            name: {
                f"Dense_{i}": jax.tree.map(
                    lambda x, a=each: jnp.broadcast_to(a / a.mean(), x.shape), tree[f"Dense_{i}"]
                )
                for i, each in enumerate(step.activity[name])
            }
            for name, tree in step.gradients.items()
        }
        if case.continuous:
            dormancy["actor"]["log_std"] = jnp.ones(ACTIONS)
        where = step.update / UPDATES, step.epoch / EPOCHS
        gradients, dormancy = ours(step.gradients), ours(dormancy)
        updates, state = update(meta_params, gradients, state, params, dormancy, *where, drawn)
        params = jax.tree.map(jnp.add, params, updates)
        found.append(np.asarray(jax.flatten_util.ravel_pytree(updates)[0]))
    return found
