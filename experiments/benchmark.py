"""Measure throughput: ours against references, in alternation, in steady state.

python experiments/benchmark.py                              # all suites
python experiments/benchmark.py ppo --tasks CartPole-v1 --agents 256 --repeats 5
python experiments/benchmark.py ppo --agents 256 --chunk-sizes 2 4 8 16 32
python experiments/benchmark.py ppo dqn --peers --json results.json --figure speed.png
python experiments/benchmark.py ppo --external 'other=other.sh {task} {agents} {updates}'
python experiments/benchmark.py q-learning --repeats 5 --save docs/results/q-learning.json
python experiments/benchmark.py evolution --shape ppo blog
python experiments/benchmark.py sweep --trials 256
python experiments/benchmark.py environments --environments CartPole-v1 --peers
python experiments/benchmark.py compile --programs quick --against COMMIT
python experiments/benchmark.py learning --against COMMIT
python experiments/benchmark.py devices
python experiments/benchmark.py tracking --repeats 5
python experiments/benchmark.py learned-rules --external 'OPEN=open.sh {task} {agents} {updates}'
python experiments/benchmark.py games --external 'M-FOS=mfos.sh {agents} {games} {hidden}'
python experiments/benchmark.py robots --repeats 3 --save docs/results/robots.json

Every variant runs in a process of its own, with its own XLA flags. All processes of a comparison
compile first; then they measure in turns (A B A B ...) while the others wait, so that whatever else
the machine does falls on all of them. Ratios are of neighbours in time. On a busy machine they only
say how many CPU seconds a step costs: what the layout gains by using every core shows on an idle
one. Tables are printed as markdown; docs/explanation/performance.md explains their columns.
"""

import argparse
import itertools
import json
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from experiments.benchmarks import (
    commits,
    compiling,
    environments,
    evolution,
    figures,
    games,
    learned_rules,
    learning,
    peers,
    robots,
    scaling,
    sweeps,
    tabular,
    tracking,
    training,
)
from experiments.benchmarks.comparison import Table
from experiments.benchmarks.external import FIELDS, external
from experiments.benchmarks.machine import machine, save
from experiments.benchmarks.processes import BenchmarkError

SUITES: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "ppo": training.suite_ppo,
    "dqn": training.suite_dqn,
    "q-learning": tabular.suite,
    "environments": environments.suite,
    "evolution": evolution.suite,
    "sweep": sweeps.suite,
    "devices": scaling.suite,
    "compile": compiling.suite,
    "tracking": tracking.suite,
    "learned-rules": learned_rules.suite,
    "games": games.suite,
    "robots": robots.suite,
    "learning": learning.suite,
}


def main() -> int:
    """Run the suites."""
    options = parse()
    results: dict[str, Any] = {"machine": machine(), "command": shlex.join(sys.argv)}
    print("  ".join(f"{key} {value}" for key, value in results["machine"].items()))
    try:
        for name in options.suites:
            print(f"\n## {name}: {SUITES[name].__doc__}\n", flush=True)
            results[name] = SUITES[name](options)
        if options.figure is not None:
            figures.draw(results, options.figure)
    except BenchmarkError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    finally:  # what has been measured is kept
        if options.json is not None:
            options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    if options.save is not None:
        save(options.save, command_line(), [each.saved(options.suites[0]) for each in Table.made])
    return int(any(results[name].get("failures") for name in options.suites))


def command_line() -> str:
    """Return the command line of this process, without how a peer is started on this machine."""
    words = [
        f"{each.partition('=')[0]}=..." if before == "--external" else each
        for before, each in itertools.pairwise(["", *sys.argv[1:]])
    ]
    return shlex.join(["python", "experiments/benchmark.py", *words])


def parse() -> argparse.Namespace:
    """Read the command line; end with one line for what is wrong with it."""
    parser = _Parser(
        description=__doc__,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    known = ", ".join(SUITES)
    parser.add_argument(
        "suites", nargs="*", metavar="SUITE", help=f"{known}; default: all but the last"
    )
    lists: dict[str, tuple[Any, str]] = {
        "--agents": (
            _positive,
            "(ppo, dqn; devices: on each device, and on all together; games: candidates)",
        ),
        "--num-envs": (_positive, "numbers of environments (environments); default: 10 2048"),
        "--chunk-sizes": (_positive, "also measure these (ppo, dqn)"),
        "--only": (str, "of what ours is held against, only these (ppo, dqn)"),
    }
    for flag, (kind, text) in lists.items():
        metavar = "NAME" if kind is str else "N"
        parser.add_argument(flag, type=kind, nargs="+", default=[], metavar=metavar, help=text)
    choices: dict[str, tuple[str, Sequence[str]]] = {
        "--tasks": ("ppo and dqn", training.TASKS),
        "--environments": ("environments", environments.ENVIRONMENTS),
        "--shape": ("evolution", evolution.SHAPES),
        "--programs": ("compile", tuple(compiling.PROGRAMS)),
    }
    for flag, (suite, names) in choices.items():
        parser.add_argument(
            flag, nargs="+", default=list(names), choices=names, metavar="NAME",
            help=f"of {suite}: {', '.join(names)}; default: all",
        )  # fmt: skip
    parser.add_argument("--repeats", type=_positive, default=3, metavar="N", help="default: 3")
    numbers: dict[str, tuple[int | None, str]] = {
        "--frames": (None, "environment steps of one measurement (ppo, dqn); default: by task"),
        "--generations": (4, "of one measurement of the shape ppo (evolution); default: 4"),
        "--population": (None, "of evolution; default: the shape's, on a CPU fewer for blog"),
        "--trials": (256, "of one measurement (sweep); default: 256"),
        "--seeds": (16, "agents of every task (learning); default: 16"),
        "--agent-steps": (
            None, "of an agent (q-learning, evolution, tracking, learning, robots); by default the "
            "suite's",
        ),
    }  # fmt: skip
    for flag, (default, text) in numbers.items():
        parser.add_argument(flag, type=_positive, default=default, metavar="N", help=text)
    text = "also measure those that are installed: rejax, PyTorch, Gymnasium"
    parser.add_argument("--peers", action="store_true", help=text)
    fields = ", ".join(f"{{{field}}}" for field in FIELDS)
    text = "also measure this worker (ppo, dqn, evolution), see benchmarks/processes.py; "
    text += f"may contain {fields}"
    parser.add_argument(
        "--external", type=external, action="append", default=[], metavar="NAME=COMMAND", help=text
    )
    text = "hold ours against that commit of this repository (compile, learning)"
    parser.add_argument("--against", metavar="COMMIT", help=text)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results there")
    text = "write the tables of one suite there, for a page (docs/results/SUITE.json)"
    parser.add_argument("--save", type=Path, metavar="FILE", help=text)
    text = "a chart of steps/s against agents (ppo, dqn)"
    parser.add_argument("--figure", type=Path, metavar="FILE", help=text)
    options = parser.parse_args()
    options.suites = options.suites or [name for name in SUITES if name != "learning"]
    if unknown := set(options.suites) - set(SUITES):
        parser.error(f"unknown suite {', '.join(sorted(unknown))}; known: {known}")
    if options.generations > evolution.BLOCK:
        parser.error(f"--generations {options.generations}: at most {evolution.BLOCK} fit a block")
    if options.against and not commits.is_commit(options.against):
        parser.error(f"--against {options.against}: git knows no such commit")
    if "learning" in options.suites and not options.against:
        parser.error("learning needs --against COMMIT")
    if options.save is not None and len(options.suites) != 1:
        parser.error("--save keeps the tables of a single suite: name one")
    for flag in ("json", "save", "figure"):
        path = getattr(options, flag)
        if path is not None and not path.resolve().parent.is_dir():
            parser.error(f"--{flag} {path}: its directory does not exist")
        if path is not None and path.is_dir():
            parser.error(f"--{flag} {path}: is a directory")
    if options.figure is not None and options.figure.suffix not in figures.FORMATS:
        parser.error(f"--figure {options.figure}: must end in .png, .svg or .pdf")
    for suite in training.LEARNERS:
        if suite in options.suites and not training.works(suite, options.tasks):
            parser.error(f"{suite} has none of these tasks: {', '.join(options.tasks)}")
    drawn = set(options.suites) & set(figures.SUITES)
    if options.figure is not None and not drawn:
        parser.error(f"--figure shows the suites {' and '.join(figures.SUITES)}: run one of them")
    options.num_envs = options.num_envs or list(environments.NUM_ENVS)
    against = [*training.FLAT, *peers.NEEDS, *(name for name, _ in options.external)]
    if unknown := set(options.only) - set(against):
        parser.error(f"--only {', '.join(sorted(unknown))}: not among {'; '.join(against)}")
    options.keep = lambda name: not options.only or name in options.only
    return options


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without three screens of usage before it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}\n")


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number") from None
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} must be at least 1")
    return value


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        from experiments.benchmarks.work import work

        work(sys.argv[2], json.loads(sys.argv[3]))
    else:
        sys.exit(main())
