"""Command line of `metaevo distill`."""

from metaevo.commands.evaluate import settings_of_run, with_unseen
from metaevo.commands.run_options import computing
from metaevo.config import ConfigError


def main(argv: list[str]) -> int:
    """Parse a command line, distill, return the exit code."""
    parser = computing("distill")
    parser.add_argument(
        "run_dir", nargs="?", metavar="RUN",
        help="the run that evolved it; latest: the last run",
    )  # fmt: skip
    text = "results go to RUN/distill/NAME; default: the slot's name"
    parser.add_argument("--name", help=text)
    parser.add_argument("--slot", help="which part, if the run has evolved several")
    sizes = {"evaluations": 150_000, "formulas": 6}
    texts = "formulas that the search tries", "formulas that are judged, at most"
    for (name, size), text in zip(sizes.items(), texts, strict=True):
        parser.add_argument(
            f"--{name}", type=int, default=size, metavar="N", help=f"{text} ({size})"
        )
    settings, before, args = settings_of_run(
        parser,
        argv,
        lambda saved, args: with_unseen(saved, {"unseen": {}}),
        fixed="what was learned is distilled as it is",
    )
    from metaevo.discovery.distill import distill
    from metaevo.studies.settings import EvolveSettings

    if not isinstance(settings, EvolveSettings) or not isinstance(before, EvolveSettings):
        raise ConfigError(f"{args.run_dir} evolved no part of a learner")
    for name in sizes:
        if not 1 <= getattr(args, name) <= 10**8:
            raise ConfigError(f"--{name} = {getattr(args, name)}: must be from 1 to 10^8")
    own = {name: getattr(args, name) for name in ("slot", "name", "dry_run", *sizes)}
    return distill(before, settings, args.run_dir, **own)
