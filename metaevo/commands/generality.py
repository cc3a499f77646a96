"""Command line of `metaevo generality`."""

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from metaevo.commands.run_options import computing, start_jax
from metaevo.config import ConfigError, code, files

if TYPE_CHECKING:
    from metaevo.judging.generality.measured import Measured
    from metaevo.judging.generality.measurement import Measurement
    from metaevo.reports.page import Table

ROOT = Path("runs") / "generality"
NOTE = (
    "Scores: 0 is random play, 1 is tuned PPO. They leave out tasks that the rule was evolved on "
    "or cannot be trained on. All rules are measured with the same random keys, and a lead of up "
    "to 0.1 can be due to chance. added: score on the tasks of later versions."
)


def main(argv: list[str]) -> int:
    """Parse a command line, measure and print, return the exit code.

    Returns:
        0, or 130 / 143 after SIGINT / SIGTERM: the same command goes on with the next task.
    """
    parser = computing("generality")
    parser.add_argument("rule", nargs="?", metavar="RULE", help="the rule to measure")
    parser.add_argument("--tasks", nargs="+", metavar="TASK", help="tasks to measure; default: all")
    parser.add_argument(
        "--learning_rates", nargs="+", type=float, metavar="X",
        help="four values to tune over, instead of Adam's",
    )  # fmt: skip
    text = "tune and score agents of other random keys, 32 of each task"
    parser.add_argument("--other-keys", action="store_true", help=text)
    args = parser.parse_flags(argv)
    start_jax()
    from metaevo.judging.generality.measured import recorded
    from metaevo.judging.generality.measurement import Measurement
    from metaevo.judging.generality.tasks import benchmark
    from metaevo.parts import zoo
    from metaevo.reports.page import Table
    from metaevo.studies.changed import work_in

    code.use(args.code)
    if args.rule is None:
        if args.tasks or args.learning_rates or args.other_keys:
            raise ConfigError("RULE: must be a name, a file or a directory, see --help")
        print(table(recorded()).text())
        print("\nTo measure another rule: metaevo generality RULE")
        return 0
    measurement = Measurement(
        args.rule, args.tasks, args.learning_rates, other_keys=args.other_keys
    )
    if args.dry_run:
        print(plan(measurement).text())
        return 0
    name = measurement.rule.name.removeprefix(zoo.PREFIX)
    folder = ROOT / f"{name}{'-other-keys' * args.other_keys}"

    def measure(check_stop: Callable[[], None]) -> None:
        measured = measurement.run(folder / "tasks", check_stop)
        check_stop()
        measured.scores.save(folder / "scores.npz")
        files.write_atomic(folder / "row.json", measured.line())
        records = measured.table()
        print(Table("", list(records[0]), [list(each.values()) for each in records]).text())
        is_whole = {*measured.tasks, *measured.unable} == {*benchmark().tasks}
        others = recorded() if is_whole and not args.other_keys else []
        rows = [*(each for each in others if each.rule != measured.rule), measured]
        print(f"\n{table(rows).text()}")
        if measured.unable:
            print(f"\n{measured.rule} cannot be trained on {', '.join(measured.unable)}")

    return work_in(folder, measure)


def plan(measurement: "Measurement") -> "Table":
    """Return what a measurement would compute."""
    from metaevo.reports.page import Table

    benchmark, tasks = measurement.benchmark, measurement.populations
    agents = len(measurement.rates) * benchmark.tuning_seeds, benchmark.seeds
    frames = sum(each.frames for each in tasks.values())
    rows = [
        ["tasks", f"{len(tasks)}: {', '.join(tasks)}"],
        ["agents of a task", f"{agents[0]} to tune, {agents[1]} scored"],
        ["frames of all", f"{sum(agents) * frames:,}"],
    ]
    return Table("Plan", ["", ""], rows)


def table(rows: "Iterable[Measured]") -> "Table":
    """Return a table with a row for each rule, in their order."""
    from metaevo.judging.generality.measured import UNSEEN
    from metaevo.reports.page import MISSING, Table, estimate

    columns, cells = ["rule", "score [95%]", "tasks"], []
    for each in rows:
        score, *others = (each.score(part) for part in each.parts)
        columns[3:] = [part for part in each.parts if part != UNSEEN]
        texts = ["" if math.isnan(other.value) else f"{other.value:.2f}" for other in others]
        tasks = each.parts[UNSEEN]
        whole = estimate(score, decimals=2) if tasks else MISSING
        cells.append([each.rule, whole, str(len(tasks)), *texts])
    return Table("", columns, cells, note=NOTE)
