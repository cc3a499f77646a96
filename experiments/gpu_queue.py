"""What waits for a GPU, for leases of a few minutes: each call goes on where the last one ended.

python experiments/gpu_queue.py --wheels gpu/wheels    # here: packages that the GPU's machine lacks
pip install --no-index --no-deps gpu/wheels/*.whl      # there, and for the job `discogen`
python -m venv --system-site-packages .venv-discogen
.venv-discogen/bin/pip install --no-index --no-deps gpu/wheels/discogen/*.whl
python experiments/gpu_queue.py --minutes 13 --to gpu/results

Jobs run in order, but for those with a result and those that need more minutes than are left. At
the end of the time the running one is told to save and stop. In the next lease an evolution goes on
from its checkpoint, DiscoGen's table from its finished cells; a benchmark begins again. `gpu/`
travels in both directions; git ignores it, so copy finished tables to docs/results. `--tiny` tries
everything on a CPU.
"""

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
import metaevo
from experiments.benchmarks.tables import Parser, Table, git, machine, save

THERE = "jax", "jaxlib", "numpy", "scipy", "flax", "optax", "chex", "ml_dtypes", "orbax_checkpoint"
"""Packages of the GPU's machine, which has JAX for its own CUDA."""
UNUSED = (
    "alembic", "anyio", "brax", "cmaes", "googleapis_common_protos", "h11", "httpcore", "mako",
    "opentelemetry_api", "opentelemetry_sdk", "opentelemetry_semantic_conventions", "pandas",
    "protobuf", "seaborn", "simplejson", "sqlalchemy", "tensorstore", "treescope", "tzdata",
    "uvloop", "wandb", "xxhash",
)  # fmt: skip
"""Packages that no job imports; what travels must be below 64 MiB."""
GRACE = 45.0
"""Seconds that a job may need to save and stop."""


class Job(NamedTuple):
    """A command, in which {to} is the folder of results."""

    name: str
    minutes: float
    """that must be left for it to start"""
    command: Sequence[str]
    full: Sequence[str]
    """flags of its sizes"""
    tiny: Sequence[str]
    """flags of sizes for a CPU's patience"""


LENGTHS = "{log_integer: [20, 305]}"  # Freeway's first episodes end in the 20th update
"""Updates of the trainings of an evolution on a GPU, at most 2.5 million steps."""
BENCHMARK = "experiments/benchmark.py"
JOBS = [
    Job("first_ratio", 1, ["experiments/gpu_queue.py", "--first-ratio", "{to}/first_ratio.json"],
        [], ["--tiny"]),
    *(Job(name, 2, [BENCHMARK, suite, "--without-kernels", "--save", f"{{to}}/{name}.json"],
          ["--agents", agents], ["--agents", "2", "--frames", "512", "--repeats", "1"])
      for suite in ("ppo", "recurrent") for agents in ("64", "2048")
      for name in (f"kernels_{suite}_{agents}",)),
    Job("kernels_evolution", 2,
        [BENCHMARK, "evolution", "--shape", "evolve_value_loss/blog", "--without-kernels",
         "--save", "{to}/kernels_evolution.json"],
        [],
        ["--agents", "2", "--generations", "1", "--agent-steps", "512", "--repeats", "1"]),
    Job("evolution", 2,
        ["-m", "metaevo", "evolve", "--config", "configs/evolve_discogen.yaml", "--comparison",
         "none", "--run-dir", "{to}/evolution"],
        ["--train.total_timesteps", "2500000", "--tasks.breakout.sample.updates", LENGTHS,
         "--tasks.freeway.sample.updates", LENGTHS, "--strategy.population_size", "64",
         "--generations", "40"],
        ["--quick"]),
    Job("discogen", 3,
        ["-m", "experiments.discogen", "run", "--rules", "ppo", "apa", "zoo:ppo-apa", "--to",
         "{to}/discogen"],
        ["--envs", "Breakout", "Freeway", "Asterix", "SpaceInvaders", "--seeds", "8",
         "--rates", "10", "--steps", "10000000"],
        ["--envs", "Breakout", "--seeds", "1", "--rates", "1", "--steps", "16384"]),
    Job("pqn", 2, [BENCHMARK, "pqn", "--save", "{to}/pqn.json"], ["--agents", "64", "2048"],
        ["--agents", "2", "--frames", "512", "--repeats", "1"]),
]  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run jobs until the time is over; return how many failed."""
    options = parse(argv)
    if options.first_ratio:
        return first_ratio(options.first_ratio, tiny=options.tiny)
    if options.wheels:
        return download(options.wheels)
    platform = of_a_subprocess("import jax; print(jax.default_backend())")
    if platform != "gpu" and not options.tiny:
        options.error(f"no GPU: JAX finds the platform {platform!r} only (see --tiny)")
    options.to.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * options.minutes
    found = {
        job.name: outcome(job, options, end)
        for job in JOBS
        if not options.only or job.name in options.only
    }
    print("\n".join(f"{name:20} {text}" for name, text in found.items()))
    return sum(text.startswith("failed") for text in found.values())


def outcome(job: Job, options: argparse.Namespace, end: float) -> str:
    """Run a job, if it has no result yet and the time suffices; return what became of it."""
    done, left = options.to / f"{job.name}.done", end - time.monotonic() - GRACE
    if done.exists():
        return "has its result"
    if left < (1 if options.tiny else 60 * job.minutes):
        return "no time left"
    command = [sys.executable, *(word.replace("{to}", str(options.to)) for word in job.command)]
    if (options.to / job.name / "config.yaml").exists():  # an interrupted evolution
        command = [sys.executable, "-m", "metaevo", "evolve", "--resume", "--run-dir",
                   str(options.to / job.name)]  # fmt: skip
    else:
        command += job.tiny if options.tiny else job.full
    start, log = time.monotonic(), options.to / f"{job.name}.log"
    print(f"{job.name}: {' '.join(command[1:])} > {log}", flush=True)
    with log.open("a") as file:
        process = subprocess.Popen(command, cwd=ROOT, stdout=file, stderr=file)
        try:
            code = process.wait(left)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
            return "goes on in the next lease"
    seconds = time.monotonic() - start
    if code:
        return f"failed ({code}) after {seconds:.0f} s, see {log}"
    about = {"seconds": seconds, "commit": git(ROOT, "rev-parse", "--short", "HEAD"), **machine()}
    done.write_text(json.dumps(about, indent=1))
    return f"done in {seconds:.0f} s"


def first_ratio(path: Path, *, tiny: bool) -> int:
    """Write how far probability ratios are from 1 before the first gradient step.

    Rollouts and minibatches are computed by different kernels, so this is their rounding: ours
    against XLA's, in a network with a memory and in one without.
    """
    metaevo.devices.setup(1)
    import jax
    import jax.numpy as jnp

    from purerl import envs, ppo
    from purerl.fast import switch

    env, env_params = envs.make("CartPole-v1")
    agents = 2 if tiny else 2048
    table = Table("network", "kernels", "agents", "mean size of the log ratio", "largest")
    has_triton = switch.has_triton
    for network, size in (("perceptron", 0), ("recurrent", 32)):
        config = ppo.Config(num_envs=64, num_minibatches=1, recurrent_size=size)
        learner = ppo.PPO(config, env)

        def log_ratios(key, learner=learner):
            state = learner.init(key, ppo.Hyperparams(), None, env_params)
            state, rollout, _ = learner.collect(state, env_params)
            flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), rollout)
            policy, _ = learner.replay(state.params, ppo.Batch(flat, *[flat.reward] * 3))
            return policy.log_prob(flat.action) - flat.log_prob

        for ours in (True, False):
            with mock.patch.object(switch, "has_triton", has_triton if ours else lambda: False):
                keys = jax.random.split(jax.random.key(0), agents)
                found = jnp.abs(jax.jit(jax.vmap(log_ratios))(keys))
            row = network, "ours" if ours else "XLA's", agents
            table.row(*row, f"{jnp.mean(found):.2g}", f"{jnp.max(found):.2g}")
    save(path, "first ratio", table)
    return 0


def download(folder: Path) -> int:
    """Download what the GPU's machine (Python 3.12) lacks of our dependencies and of DiscoGen's."""
    ours = of_a_subprocess(
        "from importlib.metadata import requires; print(*requires('metaevo'), sep='\\n')"
    ).splitlines()
    theirs = ["--requirement", str(ROOT / "experiments" / "discogen" / "requirements.txt")]
    pip = [sys.executable, "-m", "pip", "download", "-q", "--python-version", "3.12"]
    tested = ["--constraint", str(ROOT / "constraints.txt")]
    code = 0
    for target, wanted in (
        (folder, [*tested, *(each for each in ours if "extra ==" not in each)]),
        (folder / "discogen", theirs),
        (folder / "discogen", ["--no-deps", "discogen==1.3.0"]),
    ):
        code |= subprocess.call([*pip, "--only-binary", ":all:", "--dest", str(target), *wanted])
        for wheel in target.glob("*.whl"):
            is_ours = target != folder and (folder / wheel.name).exists()
            if is_ours or wheel.name.partition("-")[0].lower() in THERE + UNUSED:
                wheel.unlink()
    return code


def of_a_subprocess(code: str) -> str:
    """Return what a piece of Python prints: a GPU's memory belongs to the process that asks."""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return run.stdout.strip()


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = Parser("gpu_queue.py", description=__doc__, formatter_class=formatter)
    add = parser.add_argument
    add("--minutes", type=float, default=13, help="of the lease that are left (default: 13)")
    add(
        "--to",
        type=Path,
        metavar="FOLDER",
        help="of the results (default: gpu/results or gpu/tiny)",
    )
    names = [job.name for job in JOBS]
    add("--only", nargs="+", default=(), choices=names, metavar="JOB", help=", ".join(names))
    add("--tiny", action="store_true", help="tiny sizes, also without a GPU")
    add("--wheels", type=Path, metavar="FOLDER", help="only download what the machine lacks")
    add("--first-ratio", type=Path, metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args(argv, argparse.Namespace(error=parser.error))
    options.to = options.to or Path("gpu", "tiny" if options.tiny else "results")
    return options


if __name__ == "__main__":
    sys.exit(main())
