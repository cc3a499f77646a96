"""Random inputs of Disco103's rule, and what the authors' code makes of them in `disco_steps.json`.

It was recorded with 64 bits from github.com/google-deepmind/disco_rl at 9059a29, by `record` of
this file at commit 56ed00b9.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

RECORD = Path(__file__).parent / "disco_steps.json"
T, B, A, OBS = 6, 3, 4, 5
MODEL, BINS = 128, 601
GAMMA, TRACE, LEARNING_RATE = 0.997, 0.95, 0.01
SEEN, STEPS = 2, 3
"""Calls of the rule; steps of training, of which the third is the first with an average target."""
META = "lstm/~/meta_lstm/~unroll/"

Arrays = dict[str, np.ndarray]


class Sizes(NamedTuple):
    prediction: int
    hidden: int
    lifetime: int


SIZES = {"small": Sizes(7, 12, 5), "published": Sizes(600, 256, 128)}


def drawn(rng: np.random.Generator, shapes: Mapping[str, tuple[int, ...]]) -> Arrays:
    return {
        name: rng.normal(size=shape) * (0.1 if len(shape) == 1 else shape[-2] ** -0.5)
        for name, shape in shapes.items()
    }


def _layer(name: str, *shape: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}/w": shape, f"{name}/b": shape[-1:]}


def rule_weights(sizes: Sizes) -> Arrays:
    size, hidden, lifetime = sizes
    shapes = {}
    for where in ("lstm/", META):
        for name in ("mlp", "mlp_1"):
            shapes |= _layer(f"{where}{name}/~/linear_0", size, 16)
            shapes |= _layer(f"{where}{name}/~/linear_1", 16, 1)
        shapes |= _layer(f"{where}sequential/conv1_d", 1, 18, 16)
        shapes |= _layer(f"{where}sequential/conv1_d_1", 1, 32, 2)
    shapes |= _layer("lstm/lstm/linear", 27 + hidden, 4 * hidden)
    shapes |= _layer("lstm/linear", lifetime, hidden)
    shapes |= _layer("lstm/linear_1", hidden, 1)
    shapes |= _layer("lstm/linear_2", hidden, size)
    shapes |= _layer("lstm/linear_3", hidden, size)
    shapes |= _layer("lstm/sequential_1/conv1_d", 1, 2 * (hidden + 2), 16)
    shapes |= _layer("lstm/linear_4", 16, 1)
    shapes |= _layer(f"{META}mlp_2/~/linear_0", 29, 16)
    shapes |= _layer(f"{META}lstm/linear", 16 + lifetime, 4 * lifetime)
    return drawn(np.random.default_rng(0), shapes)


def agent_params(sizes: Sizes) -> Arrays:
    """Parameters of an agent without hidden layers in its torso."""
    shapes = _layer("policy", OBS, A) | _layer("y", OBS, sizes.prediction)
    shapes |= _layer("cell", OBS, MODEL) | _layer("gates", A + MODEL, 4 * MODEL)
    for name, size in [("z", sizes.prediction), ("next_policy", A), ("q", BINS)]:
        shapes |= _layer(f"{name}_0", MODEL, MODEL) | _layer(f"{name}_1", MODEL, size)
    return drawn(np.random.default_rng(1), shapes)


def outputs(rng: np.random.Generator, sizes: Sizes) -> Arrays:
    shapes = {"logits": (A,), "y": (sizes.prediction,), "z": (A, sizes.prediction)}
    shapes |= {"q": (A, BINS), "aux_pi": (A, A)}
    return {name: 2.0 * rng.normal(size=(T + 1, B, *shape)) for name, shape in shapes.items()}


def steps(rng: np.random.Generator, *, only_last: bool) -> Arrays:
    """Actions, rewards and ends of episodes, which can be after the last step only."""
    done = rng.random((T, B)) < 0.4
    if only_last:
        done[:-1] = False
    return {
        "action": rng.integers(A, size=(T + 1, B)).astype(np.int32),
        "reward": 3.0 * rng.normal(size=(T, B)),
        "done": done,
        "logits": rng.normal(size=(T + 1, B, A)),
        "obs": rng.normal(size=(T + 1, B, OBS)),
    }


def digest(x: np.ndarray) -> np.ndarray:
    """Return one number for each row of the last axis."""
    x = np.asarray(x, np.float64)
    return x @ np.cos(np.arange(x.shape[-1]))
