"""Measure throughput: ours against references, in alternation, in steady state.

python experiments/benchmark.py ppo dqn --tasks CartPole-v1 --agents 1 256 --repeats 5
python experiments/benchmark.py ppo --external 'PureJaxRL=peer.sh {task} {agents} {updates}'
python experiments/benchmark.py ppo q_learning evolution --against ../first --repeats 9
python experiments/benchmark.py ppo --agents 256 --devices 1 2 4 8
python experiments/benchmark.py evolution --external 'A=a.sh {agents} {generations} {agent_steps}'
python experiments/benchmark.py evolution --shape evolve_lpg/lpg --algorithms low_rank_es
python experiments/benchmark.py ppo recurrent evolution --without-kernels  # on a GPU

Every variant runs in a separate process. All processes of a case compile first; then they measure
in turns (A B A B ...) while the others wait, so that other load of the machine affects every
variant. On a busy machine compare the ratios in CPU seconds; the gain from using every core shows
on an idle machine only. docs/explanation/performance.md explains the columns.
"""

import argparse
import json
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from experiments.benchmarks import suites
from experiments.benchmarks.engine import COLUMNS, Case, compare, work
from experiments.benchmarks.tables import Parser, Table, git, machine, save

SUITES: dict[str, Callable[[argparse.Namespace], Iterator[Case]]] = {
    **{suite: partial(suites.trainings, suite) for suite, _ in suites.WORK},
    "evolution": suites.evolutions,
}


def main() -> int:
    """Run the suites; return 1 if a variant failed."""
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # workers end, and rows are saved
    cases = [case for name in options.suites for case in SUITES[name](options)]
    print("  ".join(f"{key} {value}" for key, value in machine().items()))
    table = Table(*COLUMNS)
    try:
        compare(cases, table, options.repeats)
    finally:  # keep the rows of an interrupted benchmark
        if options.save is not None:
            save(options.save, " ".join(options.suites), table)
    return int(len(table.rows) < sum(len(variants) for _, variants in cases))


def parse() -> argparse.Namespace:
    """Read the command line."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = Parser("benchmark.py", description=__doc__, formatter_class=formatter)
    add = parser.add_argument
    number = partial(add, type=int, metavar="N")
    add("suites", nargs="+", choices=SUITES, metavar="SUITE", help=", ".join(SUITES))
    number("--agents", nargs="+", default=(), help="by default 1 64; candidates (evolution)")
    tasks = sorted({task for _, task in suites.WORK})
    add("--tasks", nargs="+", choices=tasks, default=(), help="of training; default: all")
    number("--devices", nargs="+", default=(), help="also train on so many")
    number("--frames", default=2**19, help="of a measurement (training), in 2 updates at least")
    text = "presets (evolution); default: evolve_value_loss/ppo"
    add("--shape", nargs="+", default=("evolve_value_loss/ppo",), help=text)
    number("--generations", default=4, help="of one measurement (evolution); default: 4")
    number("--agent-steps", help="of one agent in the environment (evolution)")
    text = "in the place of the preset's (evolution), such as train.num_envs=4"
    add("--settings", nargs="+", default=[], metavar="SECTION.KEY=VALUE", help=text)
    text = "also measure these, in the place of the preset's strategy.algorithm (evolution)"
    add("--algorithms", nargs="+", default=(), metavar="NAME", help=text)
    number("--repeats", default=3, help="measurements of each variant; default: 3")
    text = "also measure XLA's kernels in the place of ours, which only a GPU has"
    add("--without-kernels", action="store_true", help=text)
    text = "also measure another checkout of this repository (training, evolution)"
    add("--against", type=_checkout, action="append", default=[], metavar="FOLDER", help=text)
    text = "also measure this worker, see benchmarks/engine.py; {suite} is a field, too"
    add("--external", type=_peer, action="append", default=[], metavar="NAME=COMMAND", help=text)
    add("--save", type=Path, metavar="FILE", help="write the table there, for a page")
    return parser.parse_args()


def _checkout(text: str) -> tuple[str, Path]:
    """Return the commit of a checkout, with a + if files were changed, and its folder."""
    root = Path(text).resolve()
    if not (root / "experiments" / "benchmark.py").is_file():
        raise argparse.ArgumentTypeError(f"{text}: is not a checkout of this repository")
    return git(root, "describe", "--always", "--exclude=*", "--dirty=+") or root.name, root


def _peer(text: str) -> tuple[str, list[str]]:
    """Return the name and the command of a peer."""
    name, _, command = text.partition("=")
    if not name or not command:
        raise argparse.ArgumentTypeError(f"{text!r} must be NAME=COMMAND")
    return name, shlex.split(command)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        work(suites.WORKERS[sys.argv[2]], json.loads(sys.argv[3]))
    else:
        sys.exit(main())
