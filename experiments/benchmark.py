"""Measure throughput: ours against references, in alternation, in steady state.

python experiments/benchmark.py                              # all suites
python experiments/benchmark.py ppo --tasks CartPole-v1 --agents 256 --repeats 5
python experiments/benchmark.py ppo dqn --peers --save results.json
python experiments/benchmark.py ppo --external 'other=other.sh {task} {agents} {updates}'
python experiments/benchmark.py evolution --shape ppo blog --population 16
python experiments/benchmark.py environments --environments CartPole-v1 --peers
python experiments/benchmark.py sweep --trials 256
python experiments/benchmark.py devices
python experiments/benchmark.py learned-rules --external 'OPEN=open.sh {task} {agents} {updates}'
python experiments/benchmark.py games --external 'M-FOS=mfos.sh {agents} {games} {hidden}'
python experiments/benchmark.py programs --repeats 5 --save docs/results/programs.json
python experiments/benchmark.py programs --only different

Every variant runs in a separate process with its own XLA flags. All processes of a comparison
compile first; then they measure in turns (A B A B ...) while the others wait, so that other load of
the machine affects every variant. Ratios are of neighbours in time. On a busy machine compare the
ratios in CPU seconds; the gain from using every core shows on an idle machine only. Tables are
printed as markdown; docs/explanation/performance.md explains their columns.
"""

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from experiments.benchmarks import environments, evolution, peers, programs, sweeps, training
from experiments.benchmarks.comparison import Comparison
from experiments.benchmarks.environments import ENVIRONMENTS, NUM_ENVS
from experiments.benchmarks.external import FIELDS, external
from experiments.benchmarks.machine import machine, save
from experiments.benchmarks.tasks import LEARNERS, TASKS
from metaevo.config import exit_on_config_error
from metaevo.config.command_line import Parser

SUITES: dict[str, Callable[[argparse.Namespace], Comparison]] = {
    "ppo": training.suite_ppo,
    "dqn": training.suite_dqn,
    "environments": environments.suite,
    "evolution": evolution.suite_evolution,
    "sweep": sweeps.suite,
    "devices": training.suite_devices,
    "learned-rules": training.suite_learned_rules,
    "games": evolution.suite_games,
    "programs": programs.suite,
}


def main() -> int:
    """Run the suites."""
    options = parse()
    print("  ".join(f"{key} {value}" for key, value in machine().items()))
    comparisons: dict[str, Comparison] = {}
    try:
        for name in options.suites:
            print(f"\n## {name}: {SUITES[name].__doc__}\n", flush=True)
            comparisons[name] = SUITES[name](options)
    finally:  # keep the results of the suites that have ended
        if options.save is not None:
            save(options.save, {name: each.table for name, each in comparisons.items()})
    return int(any(each.failures for each in comparisons.values()))


@exit_on_config_error()
def parse() -> argparse.Namespace:
    """Read the command line; exit with a message of one line if it is wrong."""
    parser = Parser("benchmark", __doc__)
    parser.prog = "benchmark.py"
    add = parser.add_argument
    number = partial(add, type=_positive, metavar="N")
    names = partial(add, nargs="+")
    text = f"{', '.join(SUITES)}; default: all"  # checked below: argparse cannot without any
    add("suites", nargs="*", metavar="SUITE", help=text)
    text = "(ppo, dqn; devices: on each device, and on all; games)"
    number("--agents", nargs="+", default=(), help=text)
    number("--num-envs", nargs="+", default=NUM_ENVS, help="of environments; default: 10 2048")
    text = "of ppo, dqn, learned-rules; default: all"
    names("--tasks", choices=TASKS, default=TASKS, help=text)
    names("--environments", choices=ENVIRONMENTS, default=ENVIRONMENTS, help="default: all")
    text = "of evolution; default: ppo standard"
    names("--shape", choices=evolution.SHAPES, default=evolution.SHAPES[:2], help=text)
    text = "only these references (ppo, dqn, evolution), or rules (programs)"
    names("--only", default=(), metavar="NAME", help=text)
    number("--repeats", default=3, help="measurements of each variant; default: 3")
    text = "environment steps of one measurement (ppo, dqn); default: by task"
    number("--frames", help=text)
    text = "of one measurement of the shape ppo (evolution); default: 4"
    number("--generations", default=4, help=text)
    number("--trials", default=256, help="of one measurement (sweep); default: 256")
    number("--population", help="candidates (evolution); default: the shape's")
    number("--agent-steps", help="of an agent (evolution, programs)")
    text = "also measure the installed ones of: rejax, Gymnasium, MinAtar"
    add("--peers", action="store_true", help=text)
    text = "also measure this worker (ppo, dqn, evolution, learned-rules, games), see "
    text += f"benchmarks/processes.py; may contain {', '.join(f'{{{each}}}' for each in FIELDS)}"
    add("--external", type=external, action="append", default=[], metavar="NAME=COMMAND", help=text)
    text = "write the tables there (docs/results/SUITE.json is shown on a page)"
    add("--save", type=_new_file, metavar="FILE", help=text)
    options = parser.parse_args()
    options.suites = options.suites or list(SUITES)
    references = [*peers.NEEDS, *(name for name, _ in options.external)]
    references += [*programs.RULES, programs.DIFFERENT]
    for given, known in ((options.suites, list(SUITES)), (options.only, references)):
        if unknown := set(given) - set(known):
            parser.error(f"unknown {', '.join(unknown)}; known: {', '.join(known)}")
    for suite in LEARNERS:
        if suite in options.suites and not training.works(suite, options.tasks):
            parser.error(f"{suite} has none of these tasks: {', '.join(options.tasks)}")
    options.keep = lambda name: not options.only or name in ("ours", *options.only)
    return options


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number, at least 1")
    return int(text)


def _new_file(text: str) -> Path:
    path = Path(text)
    if path.is_dir() or not path.resolve().parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text}: must be a file in a directory that exists")
    return path


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        from experiments.benchmarks.work import work

        work(sys.argv[2], json.loads(sys.argv[3]))
    else:
        sys.exit(main())
