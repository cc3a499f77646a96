"""Short evolutions, scores of fixed settings and a training run, and what they came to.

    python -m tests.golden.evolutions     # writes evolutions.json; needed after a change of results

A case is plain data, and `evolving.py` is the only module that knows how metaevo runs it. Floats in
the file have the fewest digits that identify a float32, so on the recorded platform they are
compared bit for bit, and a larger array by its digest. Elsewhere what chaos leaves comparable is
compared to a tolerance. README.md has the keys.
"""

import functools
import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import tests.conftest  # noqa: F401 - sets XLA's flags before JAX starts
from tests.golden import evolving, learners
from tests.golden.evolving import Case

FILE = Path(__file__).with_name("evolutions.json")

GRID = {"env": "GridWorld", "env_params": {"size": 4, "slip_probability": 0.2}}
Q_LEARNING = {
    "learner": "q_learning",
    "train": {"total_timesteps": 300, "num_steps": 50},
    "hyperparams": {"learning_rate": 0.2, "gamma": 0.95, "epsilon_start": 0.1},
    "tasks": {"grid": GRID},
    "fitness": {"reward_per_step": 100.0},
}
PPO = {
    "learner": "ppo",
    "train": {
        "total_timesteps": 4 * 64, "num_envs": 4, "num_steps": 16, "num_minibatches": 2,
        "update_epochs": 2, "hidden_sizes": [8], "shared_network": True,
    },
    "hyperparams": {"learning_rate": 3e-2, "vf_coef": 2.0},
    "tasks": {"poles": {"env": "CartPole-v1", "env_params": {"max_steps_in_episode": 30}}},
    "fitness": {"mean_return": 1.0, "reward_per_step": 1.0},
}  # fmt: skip
DQN = {
    "learner": "dqn",
    "train": {
        "total_timesteps": 5 * 48, "num_envs": 4, "num_steps": 12, "train_interval": 8,
        "batch_size": 8, "buffer_size": 80, "learning_starts": 40, "target_interval": 16,
        "hidden_sizes": [8],
    },
    "hyperparams": {"learning_rate": 1e-2, "epsilon_start": 0.5},
    "tasks": {"grid": GRID},
    "fitness": {"reward_per_step": 100.0},
}  # fmt: skip
OPEN_ES = {"algorithm": "Open_ES", "population_size": 6, "sigma": 0.3, "learning_rate": 0.3}
SHORT = {
    "generations": 3, "seeds_per_candidate": 2, "validation_every": 2, "validation_seeds": 3,
}  # fmt: skip

EVOLUTIONS: dict[str, Case] = {
    "value loss of Q-learning": {
        **Q_LEARNING,
        "parts": {"value_loss": {"hidden_sizes": [4], "start": "random"}},
        "strategy": OPEN_ES,
        "evolution": SHORT,
        "seed": 1, "chunk_size": 4, "devices": 2,
    },
    "value loss of PPO": {
        **PPO,
        "parts": {"value_loss": {"hidden_sizes": [4, 4], "start": "random"}},
        "strategy": {**OPEN_ES, "learning_rate_decay": 0.9, "sigma_decay": 0.9},
        "evolution": SHORT,
        "seed": 2, "chunk_size": 2, "devices": 2,
    },
    "value loss of DQN": {
        **DQN,
        "parts": {
            "value_loss": {
                "form": "additive", "hidden_sizes": [4], "inputs": ["error", "signed_log_error"],
                "start": "random",
            },
        },
        "strategy": {"algorithm": "SimpleGA", "population_size": 6, "sigma": 0.3},
        "evolution": {**SHORT, "validation_every": 1},
        "seed": 12, "chunk_size": 3, "devices": 1,
    },
    "optimizer on two tasks": {
        **PPO,
        "parts": {"optimizer": {"hidden_size": 4, "start": "adam"}},
        "tasks": {
            "poles": {
                "env": "CartPole-v1",
                "env_params": {"max_steps_in_episode": 30},
                "sample": {
                    "env_params.length": {"uniform": [0.3, 1.0]},
                    "hyperparams.gamma": {"choice": [0.95, 0.99]},
                    "updates": {"log_integer": [2, 4]},
                },
                "scale": [15.0, 20.0],
            },
            "catch": {
                "env": "Catch-bsuite",
                "sample": {"reward_scale": {"log_uniform": [0.1, 10]}},
                "scale": [-0.75, -0.25],
            },
        },
        "fitness": {"mean_return": 1.0},
        "strategy": OPEN_ES,
        "evolution": {**SHORT, "across_tasks": "rank", "seeds_per_candidate": 1},
        "seed": 4, "chunk_size": 2, "devices": 2,
    },
    "formula": {
        **Q_LEARNING,
        "parts": {
            "formula": {
                "slot": "value_loss",
                "expression": "error**2 / 2 + slope * error + bend * log1p(error**2)",
                "constants": {"slope": 0.1, "bend": 0.1},
            },
        },
        "strategy": {"algorithm": "CMA_ES", "population_size": 6, "sigma": 0.5},
        "evolution": SHORT,
        "seed": 5, "chunk_size": 5, "devices": 2,
    },
    "program search": {
        **Q_LEARNING,
        "parts": {
            "program": {
                "slot": "value_loss", "gives": "slope", "inputs": ["error"], "length": 8,
                "depth": 4, "operations": ["add", "multiply", "tanh"],
            },
        },
        "strategy": {"algorithm": "genetic_programming", "population_size": 8},
        "evolution": {**SHORT, "validation_every": 1},
        "seed": 6, "chunk_size": 4, "devices": 2,
    },
}  # fmt: skip

COMPARISONS: dict[str, Case] = {
    "value losses of Q-learning": {
        **Q_LEARNING,
        "parts": {"value_loss": {"hidden_sizes": [4], "start": "random"}},
        "contenders": {
            "learned": {"function": "learned", "settings": {}},
            "learned, optimistic": {"function": "learned", "settings": {"initial_value": 1.0}},
            "squared": {"function": "squared", "settings": {}},
            "huber": {"function": "huber", "settings": {"initial_value": 2.0, "gamma": 0.9}},
        },
        "seeds": 5, "seed": 7, "chunk_size": 2, "devices": 4,
    },
}  # fmt: skip
SWEEPS: dict[str, Case] = {
    "Q-learning": {
        **Q_LEARNING,
        "slots": {"value_loss": "huber"},
        "points": [
            {"hyperparams.learning_rate": 0.2, "hyperparams.initial_value": 0.0},
            {"hyperparams.learning_rate": 0.9, "hyperparams.initial_value": 0.5},
            {"hyperparams.learning_rate": 0.1, "hyperparams.initial_value": 1.0},
        ],
        "seeds": 4, "statistic": "iqm", "seed": 8, "chunk_size": 3, "devices": 2,
    },
}  # fmt: skip
SCALES: dict[str, Case] = {
    "Q-learning": {
        **Q_LEARNING,
        "parts": {"value_loss": {}},
        "seed": 9, "chunk_size": None, "devices": 4,
    },
}  # fmt: skip
TRAININGS: dict[str, Case] = {
    "PPO": {
        **PPO,
        "slots": {"value_loss": "huber"},
        "seeds": 3, "log_every": 2, "seed": 10, "chunk_size": 2, "devices": 2,
    },
}  # fmt: skip


def evolution(case: Case) -> dict[str, Any]:
    return evolved(*evolving.evolve(case))


def evolved(records: evolving.Records, found: Any) -> dict[str, Any]:
    return {**series(records), "found": found_in(found)}


def comparison(case: Case) -> dict[str, Any]:
    return {name: plain(each) for name, each in evolving.score(case).items()}


def sweep(case: Case) -> dict[str, Any]:
    points = {
        ", ".join(f"{name.rpartition('.')[2]} {value}" for name, value in point.items()): found
        for point, found in zip(case["points"], evolving.objectives(case), strict=True)
    }
    return {
        name: {"objective": plain(np.float32(value)), "scores": plain(scores)}
        for name, (value, scores) in points.items()
    }


def scale(case: Case) -> dict[str, Any]:
    return {name: plain(np.float32(each)) for name, each in evolving.measure_scales(case).items()}


def training(case: Case) -> dict[str, Any]:
    """Train in a run directory; return what is frozen."""
    with tempfile.TemporaryDirectory() as folder:
        return evolved(*evolving.train_in_pieces(case, Path(folder) / "run", []))


KINDS: dict[str, tuple[dict[str, Case], Callable[[Case], dict[str, Any]]]] = {
    "evolution": (EVOLUTIONS, evolution),
    "comparison": (COMPARISONS, comparison),
    "sweep": (SWEEPS, sweep),
    "scale": (SCALES, scale),
    "training": (TRAININGS, training),
}
"""The cases of each kind, and the function that measures one."""
CASES = [(kind, name) for kind, (cases, _) in KINDS.items() for name in cases]


@functools.cache
def measure(kind: str, name: str) -> dict[str, Any]:
    cases, function = KINDS[kind]
    return function(cases[name])


def series(records: evolving.Records) -> dict[str, Any]:
    return {name: [plain(record[name]) for record in records] for name in records[0]}


def found_in(tree: Any) -> dict[str, Any]:
    """Return a digest of all bits of a tree's leaves, in their order, and its first numbers."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]
    digest = hashlib.sha256()
    for leaf in leaves:
        digest.update(f"{leaf.dtype}{leaf.shape}".encode() + leaf.tobytes())
    numbers = np.concatenate([leaf.ravel().astype(np.float32) for leaf in leaves])
    return {"digest": digest.hexdigest(), "numbers": plain(numbers[:6])}


def plain(value: Any) -> Any:
    """Return integers, and floats with the digits that a float32 needs; None where not finite."""
    array = np.asarray(value)
    if array.ndim:
        return [plain(each) for each in array]
    if array.dtype == object:  # a number that metrics.jsonl has as null
        return None
    if not np.issubdtype(array.dtype, np.floating):
        return int(array)
    return float(str(np.float32(array))) if np.isfinite(array) else None


def platform() -> dict[str, str]:
    """Return what the bits depend on besides the code."""
    flags = os.environ["XLA_FLAGS"].split()
    return {**learners.platform(), "xla_flags": " ".join(sorted(flags))}


def text(measured: Any, indent: str = "") -> str:
    """Return JSON in which every list is on one line, so that a difference is easy to read."""
    if not isinstance(measured, dict):
        return json.dumps(measured)
    inside = f"{indent} "
    entries = [f"{inside}{json.dumps(k)}: {text(v, inside)}" for k, v in measured.items()]
    return "{\n" + ",\n".join(entries) + f"\n{indent}}}"


def main() -> None:
    measured: dict[str, Any] = {kind: {} for kind in KINDS}
    for kind, name in CASES:
        measured[kind][name] = measure(kind, name)
    FILE.write_text(text({"platform": platform(), **measured}) + "\n")


if __name__ == "__main__":
    main()
