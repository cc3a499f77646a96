"""Command line of `metaevo generality`."""

import argparse
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np

from metaevo.comparison.generality import cost, result, rows, submission
from metaevo.comparison.generality.judge import judge, prepare
from metaevo.comparison.generality.references import measure_references
from metaevo.comparison.generality.rules import is_own
from metaevo.comparison.generality.tasks import Benchmark, benchmark
from metaevo.components import discovery
from metaevo.config import ConfigError, exit_on_config_error, files
from metaevo.config.command_line import Parser
from metaevo.runs.run import work_in
from metaevo.runs.run_directory import commit

ROOT = Path("runs") / "generality"


@exit_on_config_error()
def main(argv: list[str], *, description: str | None) -> int:
    """Parse a command line, measure, print and draw, return the exit code.

    Returns:
        0, or 130 / 143 after SIGINT / SIGTERM: the same command goes on with the next task.
    """
    parser = Parser("generality", description)
    parser.add_argument("rule", nargs="?", metavar="RULE", help="the rule to measure")
    parser.add_argument("--tasks", nargs="+", metavar="TASK", help="tasks to measure; default: all")
    parser.add_argument(
        "--learning_rates", nargs="+", type=float, metavar="X", help="values to tune over"
    )
    parser.add_argument(
        "--all-tuned", action="store_true", help="also tune clip, entropy bonus and trace"
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="default: runs/generality/NAME")
    parser.add_argument(
        "--references", type=Path, metavar="FILE", help="measure random play and tuned PPO instead"
    )
    parser.add_argument(
        "--submit", action="store_true", help=f"also write {submission.FILE}, for --check"
    )
    parser.add_argument(
        "--check", type=Path, metavar="FILE", help="check a submission of RULE instead"
    )
    discovery.add_flag(parser)
    args = parser.parse_args(argv)
    discovery.use(args.code)
    found = benchmark()
    given = args.tasks, args.learning_rates, args.all_tuned or None
    if args.references is not None:
        if args.rule is not None or any(each is not None for each in given):
            raise ConfigError("--references: measures PPO on all tasks; leave out the rest")
        folder = args.output or ROOT / "references"
        return work_in(
            folder,
            "tasks",
            lambda check_stop: measure_references(found, folder, args.references, check_stop),
        )
    if args.check is not None:
        return _check(args, found)
    if args.rule is None:
        if args.submit or any(each is not None for each in (*given, args.output)):
            raise ConfigError(
                "generality: needs a rule: the name of a hand-written one, zoo:NAME, or the "
                "directory of a run"
            )
        print(rows.table(rows.entered()).text())
        print("\nTo measure another rule: metaevo generality RULE")
        return 0
    if args.submit and args.tasks is not None:
        raise ConfigError("--submit: a submission has all tasks; leave out --tasks")
    job = prepare(
        args.rule,
        tasks=args.tasks,
        learning_rates=args.learning_rates,
        all_tuned=args.all_tuned,
    )

    folder = args.output or ROOT / job.rule.name

    def work(check_stop: Callable[[], None]) -> None:
        judged = judge(job, folder / "tasks", check_stop)
        check_stop()
        costs = cost.measure_cost(found, job.tasks[0], job.rule, folder)
        about = {**judged.content, "cost": costs, "commit": commit()}
        files.write_json_atomic(folder / "result.json", about)
        judged.draw(folder)
        if args.submit:
            command = shlex.join(["metaevo", "generality", *argv])
            sent = submission.submission(found, about, command, job.rule.learner)
            files.write_json_atomic(folder / submission.FILE, sent)
        print(result.table(about, found).text())
        if about["score"] is not None and about["complete"]:
            others = [row for row in rows.entered() if row["rule"] != about["rule"]]
            print(f"\n{rows.table([*others, about]).text()}")
        print(f"\n{result.headline(about)}")
        print(f"CPU time of training on {costs['task']} (PPO with Adam: 1): {cost.text(costs)}")
        if job.unable:
            print(f"{job.rule.name} cannot be trained on {', '.join(job.unable)}")

    return work_in(folder, "tasks", work)


def _check(args: argparse.Namespace, found: Benchmark) -> int:
    """Check a submission, print what was trained again, return the exit code."""
    others = args.tasks, args.learning_rates, args.output, args.all_tuned or None
    if args.submit or any(each is not None for each in others):
        raise ConfigError("--check: takes a RULE only; leave out the rest")
    content, where = submission.read(args.check), str(args.check)
    name = args.rule or content["row"]["rule"]
    if args.rule is None and not is_own(name):
        raise ConfigError(
            f"{where}: is of {name}, which is not metaevo's: name its file, directory or weights "
            "(metaevo generality RULE --check FILE)"
        )
    rates = content["row"]["learning_rates"]
    job = prepare(name, tasks=None, learning_rates=rates)
    submission.check(content, where, found, job.rule, job.references, job.unable)
    print(f"{where}: complete, of {job.rule.name} as it is; training a tenth again")
    submission.repeat(content, where, found, job.rule, np.random.default_rng())
    print(f"accepted: {result.headline({**content['row'], 'complete': True})}")
    return 0
