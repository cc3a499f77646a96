"""The authors' code of PQN (github.com/mttga/purejaxql) next to ours, given a checkout of theirs.

python -m experiments.benchmarks.purejaxql CHECKOUT CartPole-v1 --seeds 10 --save FILE
python -m experiments.benchmarks.purejaxql CHECKOUT Breakout-MinAtar --frames 1000000
python experiments/benchmark.py pqn --agents 64 --external \
  'purejaxql=python -m experiments.benchmarks.purejaxql CHECKOUT {task} --worker {agents} {updates}'

The first two train both codes in the same environments, ours at the settings of
`configs/train/pqn_*.yaml`, theirs at those of `config/alg/pqn_*.yaml`, and compare the returns of
the episodes that finished. `--frames` also shortens what is annealed. With `--worker`, theirs is
measured as `engine.py` describes: one `jit(vmap(train))`, as their program has it.

Their file runs unchanged, without evaluations; for curves, its layers compute with our products. It
expects an older gymnax, so its wrappers are replaced here, and packages for logging and weights,
which become empty modules.
"""

import argparse
import importlib.util
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import yaml

import metaevo
from experiments.benchmarks import suites
from experiments.benchmarks.engine import Measure, timed, work
from experiments.benchmarks.tables import Parser, Table, interval, save
from purerl.fast.arithmetic import conv_general_dilated, dot_general

POINTS = 10
"""Of a learning curve."""
Runs = dict[str, np.ndarray]
UNUSED = "wandb", "hydra", "omegaconf", "safetensors", "safetensors.flax"
"""Packages that their file imports."""


class Wrapped:
    """An environment as their code expects it: a step has one flag for an episode's end.

    `info` has the return of an episode that ended, else zero, instead of the last one's.
    """

    def __init__(self, env: Any, flatten: bool = False):
        is_flat = isinstance(env, Wrapped)
        self.env: Any = env.env if is_flat else env
        self.flatten = flatten or is_flat

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)

    def reset(self, key: jax.Array, params: Any) -> tuple[jax.Array, Any]:
        """Return an observation and a state."""
        obs, state = self.env.reset(key, params)
        return self._seen(obs), (state, jnp.float32(0.0))

    def step(self, key: jax.Array, state: Any, action: jax.Array, params: Any) -> tuple[Any, ...]:
        """Return observation, state, reward, whether the episode ended, and sums of returns."""
        state, so_far = state
        obs, state, reward, terminated, truncated, _ = self.env.step(key, state, action, params)
        done, so_far = jnp.logical_or(terminated, truncated), so_far + reward
        info = {"episodes": done.astype(jnp.float32), "returns": jnp.where(done, so_far, 0.0)}
        return self._seen(obs), (state, jnp.where(done, 0.0, so_far)), reward, done, info

    def _seen(self, obs: jax.Array) -> jax.Array:
        return jnp.ravel(obs) if self.flatten else obs


def theirs(
    checkout: Path, task: str, frames: int, *, our_layers: bool = False
) -> Callable[[jax.Array], Any]:
    """Return their training: from the data of a key to the metrics of all updates.

    With `our_layers`, their layers compute with our products, which are other in rounding only.
    XLA's convolutions with the kernels of many agents take ten times as long on a CPU.
    """
    import gymnax  # before its wrappers are replaced

    wrappers: Any = ModuleType("gymnax.wrappers.purerl")
    wrappers.FlattenObservationWrapper = partial(Wrapped, flatten=True)
    wrappers.LogWrapper = Wrapped
    sys.modules[wrappers.__name__] = wrappers
    for name in UNUSED:
        module: Any = ModuleType(name)
        module.__getattr__ = lambda name: lambda *_, **__: lambda function: function
        sys.modules[name] = module
    program, config = ("gymnax", "cartpole") if task == "CartPole-v1" else ("minatar", "minatar")
    place = checkout / "purejaxql" / f"pqn_{program}.py"
    spec = importlib.util.spec_from_file_location(place.stem, place)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
    assert module.gymnax is gymnax
    if our_layers:
        layers = vars(module.nn) | {
            "Dense": partial(module.nn.Dense, dot_general=dot_general),
            "Conv": partial(module.nn.Conv, conv_general_dilated=conv_general_dilated),
        }
        module.nn = SimpleNamespace(**layers)
    text = (place.parent / "config" / "alg" / f"pqn_{config}.yaml").read_text(encoding="utf-8")
    settings = yaml.safe_load(text)
    settings |= {"ENV_NAME": task, "TOTAL_TIMESTEPS": frames, "TOTAL_TIMESTEPS_DECAY": frames}
    settings |= {"TEST_DURING_TRAINING": False, "WANDB_MODE": "disabled"}
    train = module.make_train(settings)
    return lambda key: train(key)["metrics"]


def curves(checkout: Path, task: str, frames: int, seeds: int) -> tuple[np.ndarray, Runs]:
    """Train both; return the steps at the ends of the points, and mean returns [seeds, points].

    The returns are those of the episodes that finished. Exploration has the share of the training
    that it has in the preset.
    """
    raw = suites.WORK["pqn", task]
    decay = raw["hyperparams"]["epsilon_decay_steps"] * frames / raw["train"]["total_timesteps"]
    changes = {"train": {"total_timesteps": frames}, "hyperparams": {"epsilon_decay_steps": decay}}
    settings = metaevo.read_settings("train", raw, changes)
    updates = settings.train.num_updates
    starts = np.arange(0, updates, every := -(-updates // POINTS))
    population = settings.population(agents=seeds, log_every=every)
    ours = population.train(jax.random.split(jax.random.key(0), seeds)).episodes
    keys = jax.random.key_data(jax.random.split(jax.random.key(1), seeds))
    metrics = jax.jit(jax.vmap(theirs(checkout, task, frames, our_layers=True)))(keys)
    sums = (np.add.reduceat(metrics[name], starts, axis=1) for name in ("returns", "episodes"))
    ends = np.minimum(starts + every, updates) * settings.train.frames_per_update
    runs = {"ours": np.asarray(ours.returns / ours.episodes)[0], "purejaxql": np.divide(*sums)}
    return ends, runs


def worker(checkout: str, task: str, agents: int, updates: int) -> tuple[Measure, str]:
    """Return what measures the training of many agents by their program."""
    per_update = suites.frames_per_update(suites.WORK["pqn", task])
    train = jax.jit(jax.vmap(theirs(Path(checkout), task, updates * per_update)))

    def keys(repeat: int) -> jax.Array:
        return jax.random.key_data(jax.random.split(jax.random.key(repeat), agents))

    return timed(train, keys, agents * updates * per_update), "jit(vmap(train))"


def main() -> None:
    """Compare the learning curves, or measure speed as a worker."""
    description, formatter = __doc__, argparse.RawDescriptionHelpFormatter
    parser = Parser("purejaxql", description=description, formatter_class=formatter)
    parser.add_argument("checkout", type=Path)
    tasks = [task for suite, task in suites.WORK if suite == "pqn"]
    parser.add_argument("task", choices=tasks)
    parser.add_argument("--frames", type=int, help="of an agent; default: those of our preset")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--worker", type=int, nargs=2, metavar=("AGENTS", "UPDATES"))
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the table there")
    options = parser.parse_args()
    checkout, task = options.checkout, options.task
    if options.worker:
        agents, updates = options.worker
        given = {"checkout": checkout, "task": task, "agents": agents, "updates": updates}
        work(worker, given)
        return
    metaevo.devices.setup()
    frames = options.frames or suites.WORK["pqn", task]["train"]["total_timesteps"]
    ends, runs = curves(checkout, task, frames, options.seeds)
    columns = [_intervals(each) for each in runs.values()]
    table = Table("steps", *runs)
    for label, *cells in zip([*map("{:,}".format, ends), "all points"], *columns, strict=True):
        table.row(label, *cells)
    if options.save is not None:
        save(options.save, task, table)


def _intervals(runs: np.ndarray) -> list[str]:
    """Return the mean of each point [seeds, points] and of all, with 95% intervals over seeds."""
    found = metaevo.statistics.mean_curve(np.column_stack([runs, runs.mean(axis=1)]))
    return [interval(*each) for each in zip(*found, strict=True)]


if __name__ == "__main__":
    main()
