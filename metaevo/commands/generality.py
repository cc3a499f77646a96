"""Command line of `metaevo generality`."""

from collections.abc import Callable
from pathlib import Path

from metaevo.comparison.generality import result, rows
from metaevo.comparison.generality.judge import judge, prepare
from metaevo.comparison.generality.references import measure_references
from metaevo.comparison.generality.tasks import benchmark
from metaevo.components import discovery
from metaevo.config import ConfigError, exit_on_config_error, files
from metaevo.config.command_line import Parser
from metaevo.runs.run import work_in
from metaevo.runs.run_directory import commit

ROOT = Path("runs") / "generality"


@exit_on_config_error()
def main(argv: list[str], *, description: str | None) -> int:
    """Parse a command line, measure, print and draw, return the exit code.

    Args:
        argv: arguments without the program's name.
        description: text for `--help`.

    Returns:
        0, or 130 / 143 after SIGINT / SIGTERM: the same command goes on with the next task.
    """
    parser = Parser("generality", description)
    parser.add_argument("rule", nargs="?", metavar="RULE", help="what is judged")
    parser.add_argument("--tasks", nargs="+", metavar="TASK", help="only these; by default all")
    parser.add_argument(
        "--learning_rates", nargs="+", type=float, metavar="X", help="that the rule is tuned over"
    )
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="by default runs/generality/NAME"
    )
    parser.add_argument(
        "--references", type=Path, metavar="FILE", help="measure random play and tuned PPO instead"
    )
    discovery.add_flag(parser)
    args = parser.parse_args(argv)
    found = benchmark()
    if args.references is not None:
        if args.rule is not None or args.tasks is not None or args.learning_rates is not None:
            raise ConfigError("--references: measures PPO on all tasks; leave out the rest")
        folder = args.output or ROOT / "references"
        return work_in(
            folder,
            "tasks",
            lambda check_stop: measure_references(found, folder, args.references, check_stop),
        )
    if args.rule is None:
        if args.tasks is not None or args.learning_rates is not None or args.output is not None:
            raise ConfigError(
                "generality: needs a rule: the name of a hand-written one, zoo:NAME, or the "
                "directory of a run"
            )
        print(rows.table(rows.entered()).text())
        print("\nmetaevo generality RULE measures another.")
        return 0
    job = prepare(
        args.rule,
        tasks=args.tasks,
        learning_rates=args.learning_rates,
        trust_source=args.trust_source,
    )

    folder = args.output or ROOT / job.rule.name

    def work(check_stop: Callable[[], None]) -> None:
        judged = judge(job, folder / "tasks", check_stop)
        about = {**judged.content, "commit": commit()}
        files.write_json_atomic(folder / "result.json", about)
        judged.draw(folder)
        print(result.table(about, found).text())
        if about["score"] is not None and about["complete"]:
            others = [row for row in rows.entered() if row["rule"] != about["rule"]]
            print(f"\n{rows.table([*others, about]).text()}")
        print(f"\n{result.headline(about)}")

    return work_in(folder, "tasks", work)
