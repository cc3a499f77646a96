"""Command line of `metaevo compare`."""

from pathlib import Path

from metaevo.commands.run_options import Parser


def main(argv: list[str]) -> int:
    """Compare the runs of a command line, write the page, and return the exit code."""
    parser = Parser("compare")
    parser.add_argument(
        "runs", nargs="+", metavar="RUN",
        help="a run directory, a folder of them, a glob, latest; wandb:ENTITY/PROJECT[/RUN]; "
        "wandb:DIRECTORY (offline); the first one is the baseline",
    )  # fmt: skip
    parser.add_argument(
        "--metric", metavar="NAME",
        help="a name in the records, or evaluation[:NAME] for held-out scores; "
        "default: mean return, held-out scores or fitness, or the best value of a sweep",
    )  # fmt: skip
    parser.add_argument(
        "--score", choices=("final", "area"), default="final",
        help="how a curve is reduced to one number: the mean of its last tenth (final) or of the "
        "whole curve (area); default: final",
    )  # fmt: skip
    parser.add_argument(
        "--group-by", metavar="KEY[,KEY]", type=lambda text: text.split(","),
        help="settings that form the groups (or `run`); default: all that differ",
    )  # fmt: skip
    parser.add_argument("--output", type=Path, metavar="DIR", help="default: runs/comparisons/TIME")
    options = vars(parser.parse_flags(argv))
    runs, folder = (options.pop(name) for name in ("runs", "output"))
    from metaevo.comparison import page
    from metaevo.comparison.analysis import compare_runs
    from metaevo.runs.run_directory import RunDirectory

    # Before the output directory is made, so that a wrong name leaves no empty one.
    result = compare_runs(runs, **options)
    page.save(result, RunDirectory.create(folder, "comparisons").path)
    return 0
