"""Record updates of OPEN's authors' code, for a test of ours.

git clone --recurse-submodules https://github.com/AlexGoldie/rl-learned-optimization DIR
python experiments/record_open.py DIR --save tests/metaevo/components/open_updates.json
python experiments/record_open.py DIR    # only compare, also with the published weights

Their `rl_optimizer/network.py` is executed, with random weights of both sizes and with a discrete
and a continuous policy. It needs two files of the submodule learned_optimization; gin, of which it
uses a decorator only, is replaced. Around it stands what their `train.py` does in a gradient step:
the clipping of gradients, the shares of training, epochs and layers.
"""

import argparse
import functools
import importlib
import itertools
import json
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import jax
import jax.numpy as jnp
import numpy as np
import optax

from metaevo.components import open as open_component
from metaevo.components import published
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
    def config(self) -> open_component.Config:
        """The settings of our component."""
        return open_component.Config(self.memory, self.hidden, published=True)

    def weights(self) -> np.ndarray:
        """Return random weights in the authors' order."""
        size = open_component.size(self.config)
        return np.random.default_rng(size).normal(0, 0.4, size).astype(np.float32)


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
    component = open_component.make(case.config)
    context = Context(Hyperparams(max_grad_norm=0.5), num_updates=UPDATES, num_epochs=EPOCHS)

    @jax.jit
    def step(weights, gradients, state, params, dormancy, progress, epoch, drawn):
        def normal(key, shape):
            del key
            return drawn.reshape(shape)

        optimizer = component.apply(weights, context)
        told = {"progress": progress, "epoch": epoch, "dormancy": dormancy}
        with mock.patch.object(jax.random, "normal", normal):
            return optimizer.update(gradients, state, params, key=jax.random.key(0), **told)

    made: Callable[..., Any] = step
    return made


def our_updates(case: Case, weights: np.ndarray, noise: list[np.ndarray]) -> list[np.ndarray]:
    """Return our updates [P] in every step; `noise` [P] are the normal numbers that were drawn."""
    update, meta_params = our_step(case), published.unflatten(weights, case.config)
    params, steps = example(case.continuous)
    params, found = ours(params), []
    state = open_component.make(case.config).apply(meta_params, Context(None)).init(params)
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


def their_updates(
    make: Callable[..., Any], case: Case, weights: np.ndarray
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the updates [P] of the authors' code in our order, and the noise that it draws."""
    meta = make(hidden_size=case.hidden, gru_features=case.memory)
    _, unravel = jax.flatten_util.ravel_pytree(meta.init(jax.random.PRNGKey(0)))
    optimizer = meta.opt_fn(unravel(jnp.asarray(weights)))
    params, steps = example(case.continuous)
    whole = {name: {"params": jax.tree.map(jnp.asarray, tree)} for name, tree in params.items()}
    states = {name: optimizer.init(whole[name], key=jax.random.PRNGKey(0)) for name in whole}
    clip = optax.clip_by_global_norm(0.5)
    shares: dict[str, dict[str, PyTree]] = {name: {"params": {}} for name in params}
    for name, tree in params.items():
        for layer, share in zip(tree, np.linspace(0, 1, len(tree)).tolist(), strict=True):
            own = jax.tree.map(lambda _, share=share: share, tree[layer])
            shares[name]["params"][layer] = own
    mask = {name: jax.tree.map(lambda _, n=name: int(n == "actor"), whole[name]) for name in whole}
    found, noise = [], []
    for index, step in enumerate(steps):
        before = {name: states[name].params for name in whole}
        gradients = {
            name: clip.update({"params": jax.tree.map(jnp.asarray, tree)}, None)[0]
            for name, tree in step.gradients.items()
        }
        activations: dict[str, list[Any]] = {
            name: [{"kernel": jnp.asarray(a), "bias": jnp.asarray(a)} for a in each]
            for name, each in step.activity.items()
        }
        if case.continuous:
            activations["actor"].append(jnp.ones(1))
        key = jax.random.PRNGKey(index)
        states["actor"], states["critic"], *_ = optimizer.update(
            states["actor"],
            states["critic"],
            gradients,
            activations,
            key=key,
            training_prop=jnp.float32(step.update / (UPDATES - 1)),
            batch_prop=jnp.float32(step.epoch / (EPOCHS - 1)),
            config={"VISUALISE": False},
            layer_props=jax.tree.map(jnp.float32, shares),
            mask=mask,
        )
        change = {
            name: jax.tree.map(jnp.subtract, states[name].params, before[name])["params"]
            for name in whole
        }
        found.append(np.asarray(jax.flatten_util.ravel_pytree(ours(change))[0]))
        leaves, structure = jax.tree.flatten(whole)
        keys = jax.random.split(key, len(leaves))
        drawn = [jax.random.normal(k, x.shape) for k, x in zip(keys, leaves, strict=True)]
        tree = jax.tree.unflatten(structure, drawn)
        own = ours({name: tree[name]["params"] for name in tree})
        noise.append(np.asarray(jax.flatten_util.ravel_pytree(own)[0]))
    return found, noise


def authors_code(repository: Path) -> Callable[..., Any]:
    """Return the class of the authors' optimizer."""
    gin = types.ModuleType("gin")
    gin.configurable = lambda cls: cls  # type: ignore[attr-defined]
    sys.modules["gin"] = gin
    sys.path.insert(0, str(repository / "rl_optimizer"))
    network = importlib.import_module("network")  # theirs

    made: Callable[..., Any] = network.GRU_Opt
    return made


def main() -> None:
    """Compare, and save what a test needs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("repository", type=Path, help="a clone of the authors' code")
    parser.add_argument("--save", type=Path, metavar="FILE", help="record updates and noise")
    args = parser.parse_args()
    make, cases = authors_code(args.repository), []

    def compare(
        name: str, case: Case, weights: np.ndarray
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        theirs, noise = their_updates(make, case, weights)
        mine = our_updates(case, weights, noise)
        apart = max(np.abs(a - b).max() for a, b in zip(mine, theirs, strict=True))
        print(f"{name}: steps up to {np.abs(theirs).max():.2g}, largest difference {apart:.2g}")
        return theirs, noise

    for case in CASES:
        theirs, noise = compare(str(case), case, case.weights())
        cases.append(
            {
                **case._asdict(),
                "updates": [[float(f"{x:.7g}") for x in each] for each in theirs],
                "noise": [[float(f"{x:.7g}") for x in each] for each in noise],
            }
        )
    for rule in published.RULES:
        path = args.repository / rule.file
        for continuous in (False, True):
            case = Case(rule.config.memory_size, rule.config.hidden_size, continuous)
            kind = "continuous" if continuous else "discrete"
            compare(f"{rule.name}, {kind}", case, np.load(path, allow_pickle=False))
    if args.save is not None:
        args.save.write_text(json.dumps(cases) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
