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
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.metadata import requires
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
import metaevo
from experiments.benchmarks.tables import Parser, Table, git, machine, save

GRACE = 45.0
"""Seconds that a job may need to save and stop."""


class Job(NamedTuple):
    """A job of gpu_queue.yaml, which explains the fields."""

    minutes: float
    command: str
    full: str = ""
    tiny: str = ""

    def words(self, name: str, folder: Path, *, tiny: bool) -> list[str]:
        """Return the command with the flags of its sizes."""
        words = shlex.split(f"{self.command} {self.tiny if tiny else self.full}")
        return [word.replace("{to}", str(folder)).replace("{name}", name) for word in words]


DATA = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
JOBS = {name: Job(**fields) for name, fields in DATA["jobs"].items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Run jobs until the time is over; return how many failed."""
    options = parse(argv)
    if options.first_ratio:
        return first_ratio(options.first_ratio, tiny=options.tiny)
    if options.wheels:
        return download(options.wheels)
    code = "import jax; print(jax.default_backend())"  # a GPU's memory belongs to who asks
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    platform = asked.stdout.strip()
    if platform != "gpu" and not options.tiny:
        options.error(f"no GPU: JAX finds the platform {platform!r} only (see --tiny)")
    options.to.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * options.minutes
    names = [name for name in JOBS if name in (options.only or JOBS)]
    found = {name: outcome(name, options, end) for name in names}
    print("\n".join(f"{name:20} {text}" for name, text in found.items()))
    return sum(text.startswith("failed") for text in found.values())


def outcome(name: str, options: argparse.Namespace, end: float) -> str:
    """Run a job, if it has no result yet and the time suffices; return what became of it."""
    job, folder, left = JOBS[name], options.to, end - time.monotonic() - GRACE
    done, log = folder / f"{name}.done", folder / f"{name}.log"
    if done.exists():
        return "has its result"
    if left < (1 if options.tiny else 60 * job.minutes):
        return "no time left"
    command = [sys.executable, *job.words(name, folder, tiny=options.tiny)]
    if (folder / name / "config.yaml").exists():  # an interrupted evolution
        command[1:] = ["-m", "metaevo", "evolve", "--resume", "--run-dir", str(folder / name)]
    start = time.monotonic()
    print(f"{name}: {shlex.join(command[1:])} > {log}", flush=True)
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
    ours = [each for each in requires("metaevo") or () if "extra ==" not in each]
    theirs = str(ROOT / "experiments" / "discogen" / "requirements.txt")
    wanted = [
        (folder, ["--constraint", str(ROOT / "constraints.txt"), *ours]),
        (folder / "discogen", ["--requirement", theirs]),
        (folder / "discogen", ["--no-deps", "discogen==1.3.0"]),
    ]
    pip = [sys.executable, "-m", "pip", "download", "-q", "--python-version", "3.12"]
    codes = [
        subprocess.call([*pip, "--only-binary", ":all:", "--dest", str(target), *packages])
        for target, packages in wanted
    ]
    known = {wheel.name for wheel in folder.glob("*.whl")}
    for wheel in folder.rglob("*.whl"):
        is_ours = wheel.parent != folder and wheel.name in known
        if is_ours or wheel.name.partition("-")[0].lower() in DATA["there"] + DATA["unused"]:
            wheel.unlink()
    return max(codes)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = Parser("gpu_queue.py", description=__doc__, formatter_class=formatter)
    add = parser.add_argument
    add("--minutes", type=float, default=13, help="of the lease that are left (default: 13)")
    text = "of the results (default: gpu/results or gpu/tiny)"
    add("--to", type=Path, metavar="FOLDER", help=text)
    add("--only", nargs="+", default=(), choices=JOBS, metavar="JOB", help=", ".join(JOBS))
    add("--tiny", action="store_true", help="tiny sizes, also without a GPU")
    add("--wheels", type=Path, metavar="FOLDER", help="only download what the machine lacks")
    add("--first-ratio", type=Path, metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args(argv, argparse.Namespace(error=parser.error))
    options.to = options.to or Path("gpu", "tiny" if options.tiny else "results")
    return options


if __name__ == "__main__":
    sys.exit(main())
