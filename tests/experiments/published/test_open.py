import functools
import hashlib
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import metaevo
from experiments.published import __main__ as published
from experiments.published.open import Open
from metaevo.judging.generality.rules import rule_of
from metaevo.parts import parameters, resolve
from metaevo.reports.pictures import Evolved
from metaevo.reports.slots import make_optimizer
from purerl import ppo
from purerl.parts import optimizers
from purerl.ppo import Hyperparams
from purerl.types import Context, PyTree
from tests.metaevo.evolving import forget_code
from tests.metaevo.toy import assert_same

# Six gradient steps of OPEN by its authors' code, with random weights of both sizes and with a
# discrete and a continuous policy: recorded from `rl_optimizer/network.py` of
# https://github.com/AlexGoldie/rl-learned-optimization by experiments/record_open.py at 77ec890.
RECORDED = json.loads((Path(__file__).parent / "open_updates.json").read_text(encoding="utf-8"))
SLOT = optimizers.MAKE_OPTIMIZER
CODE = "experiments/published/open.py"


UPDATES, EPOCHS = 3, 4
OBSERVATION, HIDDEN, ACTIONS = 3, (5, 4), 2
STEPS = 6
"""gradient steps, half an update of two minibatches"""


class Case(NamedTuple):
    memory: int
    hidden: int
    continuous: bool

    @property
    def part(self) -> Open:
        return Open(self.memory, self.hidden)

    def weights(self) -> np.ndarray:
        """Return random weights in the authors' order."""
        size = ravel_pytree(self.part.init(jax.random.key(0)))[0].size
        return np.random.default_rng(size).normal(0, 0.4, size).astype(np.float32)

    def meta_params(self, weights: np.ndarray | None = None) -> PyTree:
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


@pytest.mark.parametrize("number", range(len(CASES)))
def test_updates_match_the_authors_code(number):
    recorded = dict(RECORDED[number])
    updates, noise = recorded.pop("updates"), [*map(np.float32, recorded.pop("noise"))]
    case = Case(**recorded)
    assert case == CASES[number]
    found = our_updates(case, case.weights(), noise)
    np.testing.assert_allclose(found, updates, rtol=0, atol=1e-7)


@pytest.fixture
def weights(tmp_path, monkeypatch):
    path, case = tmp_path / "freeway_OPEN.npy", CASES[0]
    np.save(path, case.weights())
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setattr(published, "KNOWN", {digest: ("Freeway-MinAtar",)})
    return path


def test_published_weights_become_a_part_for_every_command(weights, tmp_path, monkeypatch):
    saved, run = tmp_path / "open-freeway", tmp_path / "run"
    published.main([str(weights), str(saved)])
    weights.unlink()
    forget_code(monkeypatch)
    with pytest.raises(metaevo.ConfigError, match=r"add --code .*published/open\.py"):
        metaevo.load(saved)
    function, meta_params = metaevo.load(saved, code=CODE)
    assert type(function.__self__).__name__ == "Open"
    assert_same(meta_params, CASES[0].meta_params())
    resolve.keep(run, SLOT, str(saved))
    assert_same(resolve.fill(SLOT, str(saved), run).meta_params, meta_params)
    rule = rule_of(str(saved))
    assert (rule.name, rule.slot, rule.seen) == (saved.name, SLOT.name, ("Freeway-MinAtar",))


def test_the_report_draws_an_optimizer_that_needs_all_arguments():
    part, hyperparams = CASES[0].part, ppo.Hyperparams()
    found = Evolved(part, CASES[0].meta_params(), ppo.LEARNER, hyperparams, None)
    for panel in make_optimizer(found):
        assert all(np.isfinite(y).all() for _, y in panel.curves.values())


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "No such file"), (b"", "its SHA-256 begins with e3b0c442; must be an unaltered copy")],
)
def test_altered_files_are_refused_before_parsing(content, message, weights, tmp_path, monkeypatch):
    monkeypatch.setattr(np, "load", None)
    if content is None:
        weights.unlink()
    else:
        weights.write_bytes(content)
    with pytest.raises(SystemExit, match=message):
        published.main([str(weights), str(tmp_path / "part")])
    assert not (tmp_path / "part").exists()
