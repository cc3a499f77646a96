"""One cell of the table, in the environment of their package: this file imports nothing of ours.

    .venv-discogen/bin/python experiments/discogen/harness.py CELL.json [FOLDER with modules]

Their own functions make the task, train its agents and evaluate them. As in their `main.py`,
agents of seed s and rate r have the r-th key of the s-th key of PRNGKey(30), and 16 greedy episodes
from PRNGKey(42) are the evaluation. The cell's file is written after each batch of agents, and a
later call goes on from it.
"""

import importlib
import importlib.metadata
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

EPISODES = 16
"""Of an evaluation."""
LAST = 0.05
"""Share of the updates at the end of which `training` is the mean return."""


def make_task(environment: str, modules: str | None) -> None:
    """Make their task in the working directory, with the modules of a folder, and go there."""
    from discogen import create_task  # type: ignore[import-not-found]

    changed = sorted(path.stem for path in Path(modules).glob("*.py")) if modules else []
    task = {
        "train_task_id": f"MinAtar/{environment}",
        "source_path": "task",
        "template_backend": "default",
        **{f"change_{name}": True for name in changed},
    }
    create_task("OnPolicyRL", test=False, config_dict=task, use_base=True)
    for path in Path(modules).iterdir() if modules else ():
        shutil.copyfile(path, Path("task/discovered") / path.name)
    os.chdir(Path("task") / "MinAtar" / environment)
    sys.path.insert(0, os.getcwd())


def without_brax() -> None:
    """Let their wrappers import what only their tasks with brax use."""
    brax, envs, base = (ModuleType(name) for name in ("brax", "brax.envs", "brax.envs.base"))
    brax.envs, base.Wrapper = envs, object  # type: ignore[attr-defined]
    sys.modules.update({module.__name__: module for module in (brax, envs, base)})


def run(cell: dict[str, Any], path: Path) -> None:
    """Train and evaluate the agents that a cell's file lacks."""
    import jax
    import jax.numpy as jnp

    without_brax()
    jax.devices()  # reads XLA_FLAGS, which other versions of their main.py replace
    theirs = importlib.import_module("main")
    config = theirs.config
    config["TOTAL_TIMESTEPS"] = cell["steps"]
    train, evaluate = theirs.make_train(config), theirs.make_eval(config, EPISODES)
    last = max(1, round(LAST * config["NUM_UPDATES"]))

    def scores(key, rate):
        result = train(key, rate)
        train_state, env_state, *_ = result["runner_state"]
        one = jax.tree.map(lambda x: jnp.asarray(x)[None], (train_state.params, env_state))
        returns = evaluate(one[0], jax.random.PRNGKey(42), one[1])
        return returns.mean(), jnp.nanmean(result["metrics"]["mean_training_return"][-last:])

    seeds, rates = cell["seeds"], jnp.asarray(cell["rates"])
    seed_keys = jax.random.split(jax.random.PRNGKey(30), seeds)
    keys = [jax.random.split(key, len(rates)) for key in seed_keys]
    agents = [
        (r, s) for s in range(seeds) for r in range(len(rates)) if cell["evaluation"][r][s] is None
    ]
    size = len(agents) if jax.default_backend() != "cpu" else 1  # a batched QR may hang on a CPU
    compiled = jax.jit(jax.vmap(scores) if size > 1 else scores)
    for first in range(0, len(agents), size):
        start, batch = time.time(), agents[first : first + size]
        inputs = jnp.stack([keys[s][r] for r, s in batch]), jnp.stack([rates[r] for r, _ in batch])
        found = compiled(*(inputs if size > 1 else (each[0] for each in inputs)))
        for name, values in zip(("evaluation", "training"), found, strict=True):
            for (r, s), value in zip(batch, jnp.atleast_1d(values).tolist(), strict=True):
                cell[name][r][s] = value
        cell["seconds"] += time.time() - start
        cell["device"] = jax.devices()[0].device_kind
        write(path, cell)
        done = f"{first + len(batch)} of {len(agents)} agents, {cell['seconds']:.0f} s"
        print(f"{cell['rule']} {cell['environment']}: {done}", flush=True)


def write(path: Path, cell: dict[str, Any]) -> None:
    """Replace a cell's file."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(cell, indent=1) + "\n")
    part.replace(path)


def main(file: str, modules: str | None = None) -> None:
    """Complete a cell's file, in a folder of its own."""
    cell = json.loads(Path(file).read_text())
    packages = "discogen", "gymnax", "jax", "optax"
    cell["versions"] = {name: importlib.metadata.version(name) for name in packages}
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        make_task(cell["environment"], modules)
        run(cell, Path(file))
        os.chdir("/")


if __name__ == "__main__":
    main(*map(os.path.abspath, sys.argv[1:]))
