"""Eight gradient steps of Celo, whose updates by its authors' code are in celo_updates.json.

They were recorded with random weights from `celo/optimizers/celo.py` of
https://github.com/amoudgl/celo at 32186aa, with https://github.com/google/learned_optimization at
66d9761, both on the path, next to haiku and gin:

    python -m tests.metaevo.components.celo_steps > tests/metaevo/components/celo_updates.json
    python -m tests.metaevo.components.celo_steps theta.state    # compares the published weights
"""

import functools
import json
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax.serialization import msgpack_restore

from metaevo.components import celo, published
from purerl.ppo import Hyperparams
from purerl.types import Context, PyTree

UPDATES, EPOCHS, MINIBATCHES = 2, 3, 2
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
    """A size of the networks."""

    memory: int
    hidden: int

    @property
    def config(self) -> celo.Config:
        """The settings of our component."""
        return celo.Config(*self)

    def theta(self) -> PyTree:
        """Return random weights as a file of the authors has them; the steps are large."""
        rng = np.random.default_rng(self.memory)
        memory, hidden = self

        def draw(*shape: int) -> np.ndarray:
            return rng.normal(0, 0.5, shape).astype(np.float32)

        def dense(inputs: int, outputs: int) -> PyTree:
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


def example() -> tuple[PyTree, Iterator[PyTree]]:
    """Return parameters, and the gradients of a training."""
    rng = np.random.default_rng(0)

    def draw(size: float) -> PyTree:
        return {
            name: np.asarray(rng.normal(0, size, shape), np.float32)
            for name, shape in SHAPES.items()
        }

    def steps() -> Iterator[PyTree]:
        for index in range(len(LOSSES)):
            gradients = draw(1e-3 * 10.0 ** (index % 4))
            gradients["kernel"][0] = 0  # of an input that is zero
            if index == 5:
                gradients["square"] *= 1e5  # clipped
            yield gradients

    return draw(0.3) | {"zeros": np.zeros(4, np.float32)}, steps()


@functools.cache  # compiled once
def our_step(case: Case) -> Callable[..., Any]:
    """Return our gradient step."""
    component = celo.make(case.config)
    context = Context(
        Hyperparams(), num_updates=UPDATES, num_epochs=EPOCHS, num_minibatches=MINIBATCHES
    )

    @jax.jit
    def step(meta_params, gradients, state, params, loss):
        optimizer = component.apply(meta_params, context)
        return optimizer.update(gradients, state, params, loss=loss)

    made: Callable[..., Any] = step
    return made


def our_updates(case: Case, theta: PyTree) -> list[dict[str, np.ndarray]]:
    """Return our updates in every step, by the arrays' names."""
    meta_params = published.celo_weights(theta)
    params, steps = example()
    state = celo.make(case.config).apply(meta_params, Context(None)).init(params)
    found = []
    for gradients, loss in zip(steps, LOSSES, strict=True):
        updates, state = our_step(case)(meta_params, gradients, state, params, loss)
        params = jax.tree.map(jnp.add, params, updates)
        found.append({name: np.ravel(update) for name, update in updates.items()})
    return found


def their_updates(case: Case, theta: PyTree) -> list[dict[str, np.ndarray]]:
    """Return the updates of the authors' code, which must be on the path."""
    name = "learned_optimization.summary"  # which imports TensorFlow
    sys.modules[name] = types.SimpleNamespace(summary=lambda *_, **__: None)
    base = types.SimpleNamespace(LearnedOptimizer=object, MetaParams=Any)
    sys.modules["learned_optimization.learned_optimizers.base"] = base
    import haiku
    from celo.optimizers.celo import Celo

    sizes = {"lstm_hidden_size": case.memory, "ff_hidden_size": case.hidden}
    learned = Celo(**sizes, param_inits=1, train_phase=2)
    theta = jax.tree.map(jnp.asarray, theta)
    theta["lstm_init_state"] = haiku.LSTMState(**theta["lstm_init_state"])
    optimizer = learned.opt_fn(theta)
    params, steps = example()
    params = jax.tree.map(jnp.asarray, params)
    state = optimizer.init(params, num_steps=UPDATES * EPOCHS * MINIBATCHES)
    found = []
    for gradients, loss in zip(steps, LOSSES, strict=True):
        before = state.params
        state = optimizer.update(state, gradients, loss=jnp.float32(loss))
        updates = jax.tree.map(jnp.subtract, state.params, before)
        found.append({name: np.ravel(update) for name, update in updates.items()})
    return found


def record() -> str:
    """Return the updates of the authors' code with random weights, as JSON."""

    def plain(updates: dict[str, np.ndarray]) -> PyTree:
        return {name: [float(f"{x:.7g}") for x in each] for name, each in updates.items()}

    steps = [[plain(each) for each in their_updates(case, case.theta())] for case in CASES]
    return json.dumps(steps)


def compare(path: str) -> str:
    """Return how far our updates are from theirs with the published weights."""
    theta = msgpack_restore(Path(path).read_bytes())
    ours, theirs = our_updates(CASES[0], theta), their_updates(CASES[0], theta)
    differences = jax.tree.map(lambda a, b: np.abs(a - b).max(), ours, theirs)
    sizes = jax.tree.leaves(jax.tree.map(lambda x: np.abs(x).max(), theirs))
    furthest = max(jax.tree.leaves(differences))
    return f"largest difference {furthest:.2g}, steps of {min(sizes):.2g} to {max(sizes):.2g}"


if __name__ == "__main__":
    print(compare(sys.argv[1]) if sys.argv[1:] else record())
