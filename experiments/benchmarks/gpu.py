"""Run all measurements on a GPU, the most important ones first: 40 minutes at most.

python -m experiments.benchmarks.gpu DIR

Each command is stopped when its share of the time is used up; its log, and its results so far, are
in DIR. Brax's environments need `pip install 'metaevo[brax]'`.
"""

import shlex
import subprocess
import sys
from pathlib import Path

from experiments.benchmarks.machine import ROOT
from metaevo.config import ConfigError, exit_on_config_error
from metaevo.config.command_line import Parser

BENCHMARK = "experiments/benchmark.py"
STEPS = {
    # The published shape: 512 agents of 500,000 steps a generation; the aim is 31M frames/s.
    "blog": (5, f"{BENCHMARK} evolution --shape blog --repeats 3 --save OUTPUT.json"),
    "blog-4096": (5, f"{BENCHMARK} evolution --shape blog --population 4096 --agent-steps 65536"
                  " --repeats 2 --save OUTPUT.json"),
    "ppo-2048": (5, f"{BENCHMARK} ppo --tasks CartPole-v1 --agents 2048 --peers"
                 " --chunk-sizes 128 512 1024 2048 --repeats 3 --save OUTPUT.json"),
    "ant": (5, "-m metaevo train --config configs/train/ppo_brax.yaml --task.env brax/ant"
            " --train.num_envs 2048 --train.num_steps 10 --train.num_minibatches 32"
            " --train.update_epochs 4 --train.total_timesteps 10000000 --hyperparams.gamma 0.97"
            " --seeds 1 --run-dir OUTPUT"),
    "first": (4, "-m metaevo evolve --run-dir OUTPUT"),
    "coin": (4, "-m metaevo evolve --config configs/shaping/coin.yaml --run-dir OUTPUT"),
    "minatar": (4, f"{BENCHMARK} ppo --tasks Breakout-MinAtar --peers --repeats 3"
                " --save OUTPUT.json"),
    "dqn": (3, f"{BENCHMARK} dqn --peers --repeats 3 --save OUTPUT.json"),
    "learned-rules": (2, f"{BENCHMARK} learned-rules --repeats 3 --save OUTPUT.json"),
    "rest": (3, f"{BENCHMARK} environments games devices"
             " --repeats 2 --save OUTPUT.json"),
}  # fmt: skip
"""Minutes and arguments of `python` by name; OUTPUT is the path of a step's results."""


def words(name: str, output: Path) -> list[str]:
    """Return the arguments of `python` for a step."""
    return shlex.split(STEPS[name][1].replace("OUTPUT", str(output / name)))


@exit_on_config_error()
def main(argv: list[str] | None = None) -> int:
    """Run the steps one after the other; return 1 if one failed."""
    parser = Parser("gpu", __doc__)
    parser.prog = "experiments.benchmarks.gpu"
    parser.add_argument("output", type=Path, metavar="DIR", help="a new directory")
    output = parser.parse_args(argv).output.resolve()
    if output.exists():
        raise ConfigError(f"{output}: exists")
    # In a new process, because JAX would allocate the memory of the GPU in this one.
    ask = [sys.executable, "-c", "import jax; print(jax.devices()[0].platform)"]
    if "gpu" not in subprocess.run(ask, capture_output=True, text=True, check=False).stdout:
        raise ConfigError("JAX sees no GPU here; pip install 'metaevo[cuda12]'")
    output.mkdir(parents=True)
    return run(output)


def run(output: Path) -> int:
    """Run the steps; return 1 if one failed, not counting those out of time."""
    ended = []
    for name, (minutes, _) in STEPS.items():
        limit = ["timeout", "--signal=INT", "--kill-after=20", f"{minutes}m"]
        with (output / f"{name}.log").open("wb") as log:
            done = subprocess.run(
                [*limit, sys.executable, *words(name, output)],
                cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False,
            )  # fmt: skip
        how = {0: "done", 124: "out of time", 137: "out of time"}.get(done.returncode, "failed")
        ended.append(how)
        print(f"{name}: {how}", flush=True)
    return int("failed" in ended)


if __name__ == "__main__":
    sys.exit(main())
