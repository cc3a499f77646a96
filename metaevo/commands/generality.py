"""Command line of `metaevo generality`."""

from collections.abc import Callable
from pathlib import Path

from metaevo.comparison.generality import result, rows
from metaevo.comparison.generality.judge import judge, prepare
from metaevo.comparison.generality.references import measure_references
from metaevo.comparison.generality.tasks import benchmark
from metaevo.config import ConfigError, code, exit_on_config_error, files
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
        "--other-keys", action="store_true", help="measure with other random keys and 32 agents"
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="default: runs/generality/NAME")
    parser.add_argument(
        "--references", type=Path, metavar="FILE", help="measure random play and tuned PPO instead"
    )
    code.add_flag(parser)
    args = parser.parse_args(argv)
    code.use(args.code)
    found = benchmark()
    given = args.tasks, args.learning_rates, args.other_keys or None
    if args.references is not None:
        if args.rule is not None or any(each is not None for each in given):
            raise ConfigError("--references: measures PPO on all tasks; leave out the rest")
        folder = args.output or ROOT / "references"
        return work_in(
            folder,
            "tasks",
            lambda check_stop: measure_references(found, folder, args.references, check_stop),
        )
    if args.rule is None:
        if any(each is not None for each in (*given, args.output)):
            raise ConfigError(
                "generality: needs a rule: the name of a hand-written one, zoo:NAME, or the "
                "directory of a run"
            )
        print(rows.table(rows.scored()).text())
        print("\nTo measure another rule: metaevo generality RULE")
        return 0
    job = prepare(
        args.rule,
        tasks=args.tasks,
        learning_rates=args.learning_rates,
        other_keys=args.other_keys,
    )

    name = f"{job.rule.name}-other-keys" if args.other_keys else job.rule.name
    folder = args.output or ROOT / name

    def work(check_stop: Callable[[], None]) -> None:
        judged = judge(job, folder / "tasks", check_stop)
        check_stop()
        about = {**judged.content, "commit": commit()}
        files.write_json_atomic(folder / "result.json", about)
        files.write_text_atomic(folder / "row.json", rows.line_of(about))
        judged.draw(folder)
        print(result.table(about, found).text())
        if about["score"] is not None and about["complete"] and not args.other_keys:
            others = [row for row in rows.scored() if row["rule"] != about["rule"]]
            print(f"\n{rows.table([*others, about]).text()}")
        print(f"\n{result.headline(about)}")
        if job.unable:
            print(f"{job.rule.name} cannot be trained on {', '.join(job.unable)}")

    return work_in(folder, "tasks", work)
