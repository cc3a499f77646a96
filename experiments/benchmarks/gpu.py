"""Run all measurements on a GPU, the most important ones first.

python -m experiments.benchmarks.gpu --list                 # the commands and their shares of time
python -m experiments.benchmarks.gpu --output results       # run them: 40 minutes at most

Each command runs in a separate process. It is stopped when its share of the time is used up, and
its results so far are kept. `summary.json` lists the commands, their durations and how they ended.
Brax's environments need `pip install 'metaevo[brax]'`.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from experiments.benchmarks.machine import ROOT, machine
from metaevo.config import ConfigError, exit_on_config_error
from metaevo.config.command_line import Parser

BENCHMARK = "experiments/benchmark.py"
MINUTES = 40.0
"""time limit for all commands together"""


class Step(NamedTuple):
    """One command."""

    name: str
    """name of the step and its files"""
    minutes: float
    """time limit"""
    words: str
    """the arguments of `python`; OUTPUT is the path of the step's results"""


STEPS = (
    # The published shape: 512 agents of 500,000 steps a generation; the aim is 31M frames/s.
    Step("blog", 5, f"{BENCHMARK} evolution --shape blog --repeats 3 --json OUTPUT.json"),
    Step("blog-4096", 5, f"{BENCHMARK} evolution --shape blog --population 4096 --agent-steps 65536"
         " --repeats 2 --json OUTPUT.json"),
    Step("ppo-2048", 5, f"{BENCHMARK} ppo --tasks CartPole-v1 --agents 2048 --peers"
         " --chunk-sizes 128 512 1024 2048 --repeats 3 --json OUTPUT.json"),
    Step("ant", 5, "-m metaevo train --config configs/train/ppo_brax.yaml --task.env brax/ant"
         " --train.num_envs 2048 --train.num_steps 10 --train.num_minibatches 32"
         " --train.update_epochs 4 --train.total_timesteps 10000000 --hyperparams.gamma 0.97"
         " --seeds 1 --run-dir OUTPUT"),
    Step("first", 4, "-m metaevo evolve --run-dir OUTPUT"),
    Step("coin", 4, "-m metaevo evolve --config configs/shaping/coin.yaml --run-dir OUTPUT"),
    Step("minatar", 4, f"{BENCHMARK} ppo --tasks Breakout-MinAtar --peers --repeats 3"
         " --json OUTPUT.json"),
    Step("dqn", 3, f"{BENCHMARK} dqn --peers --repeats 3 --json OUTPUT.json"),
    Step("learned-rules", 2, f"{BENCHMARK} learned-rules --repeats 3 --json OUTPUT.json"),
    Step("rest", 3, f"{BENCHMARK} q-learning environments sweep games tracking devices"
         " --repeats 2 --json OUTPUT.json"),
)  # fmt: skip


@exit_on_config_error()
def main(argv: list[str] | None = None) -> int:
    """Run the commands; return 1 if any failed."""
    parser = Parser("gpu", __doc__)
    parser.prog = "experiments.benchmarks.gpu"
    parser.add_argument("--output", type=Path, metavar="DIR", help="where results are written")
    parser.add_argument("--list", action="store_true", help="print the commands, run nothing")
    options = parser.parse_args(argv)
    if options.list:
        for step in STEPS:
            print(f"{step.minutes:4g} min  {shlex.join(words(step, Path('DIR')))}")
        return 0
    if options.output is None:
        raise ConfigError("missing --output: the directory of the results")
    if options.output.is_dir() and any(options.output.iterdir()):
        raise ConfigError(f"--output {options.output}: is not empty")
    if (platform := _platform()) != "gpu":
        raise ConfigError(f"JAX sees no GPU here, only: {platform}; pip install 'metaevo[cuda12]'")
    options.output.mkdir(parents=True, exist_ok=True)
    return run(STEPS, options.output.resolve(), MINUTES)


def words(step: Step, output: Path) -> list[str]:
    """Return a step's command line."""
    return ["python", *shlex.split(step.words.replace("OUTPUT", str(output / step.name)))]


def run(steps: tuple[Step, ...], output: Path, minutes: float) -> int:
    """Run commands one after the other; return 1 if one failed, not counting those out of time."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # not ignored, as behind nohup
    end, ended = time.monotonic() + 60 * minutes, []
    for step in steps:
        start = time.monotonic()
        limit = min(60 * step.minutes, end - start)
        how = _run(words(step, output), output / f"{step.name}.log", limit)
        seconds = time.monotonic() - start
        print(f"{step.name}: {how} after {seconds:.0f} s", flush=True)
        command = shlex.join(words(step, output))
        ended.append({"step": step.name, "how": how, "seconds": seconds, "command": command})
        summary = json.dumps({"machine": machine(), "steps": ended}, indent=1)
        (output / "summary.json").write_text(summary + "\n", encoding="utf-8")
    return int(any(each["how"] == "failed" for each in ended))


def _run(command: list[str], log: Path, limit: float) -> str:
    if limit <= 0:
        return "left out"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, *command[1:]],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        try:
            return "done" if process.wait(limit) == 0 else "failed"
        except subprocess.TimeoutExpired:
            return "out of time"
        finally:  # including the workers that it started
            for number in (signal.SIGINT, signal.SIGKILL):
                try:
                    os.killpg(process.pid, number)
                    process.wait(20)
                except (ProcessLookupError, subprocess.TimeoutExpired):
                    continue


def _platform() -> str:
    """Return JAX's platform, read in a new process because JAX would allocate GPU memory."""
    text = "import jax; print(jax.devices()[0].platform)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "no device at all"


if __name__ == "__main__":
    sys.exit(main())
