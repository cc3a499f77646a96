"""Command line of `metaevo distill`."""

from metaevo.config import ConfigError, code, exit_on_config_error
from metaevo.config.command_line import Parser
from metaevo.discovery.distill import Search, distill
from metaevo.runs.latest import run_argument
from metaevo.studies.changed import settings_of_run, with_unseen
from metaevo.studies.evolve_settings import EvolveSettings


@exit_on_config_error()
def main(argv: list[str], *, description: str | None) -> int:
    """Parse a command line, distill, return the exit code."""
    parser = Parser("distill", description)
    parser.add_argument(
        "run_dir", nargs="?", type=run_argument, metavar="RUN",
        help="the run whose part becomes formulas, or latest; its settings are the defaults",
    )  # fmt: skip
    parser.add_argument("--name", help="results go to RUN/distill/NAME; by default the slot's name")
    parser.add_argument("--slot", help="which part, if the run has evolved several")
    parser.add_argument(
        "--evaluations", type=int, default=150_000, metavar="N",
        help="formulas that the search tries",
    )  # fmt: skip
    parser.add_argument(
        "--formulas", type=int, default=6, metavar="N", help="formulas that are judged, at most"
    )
    code.add_flag(parser)
    settings, before, args = settings_of_run(
        parser,
        argv,
        lambda saved, args: with_unseen(saved, {}),
        fixed="what was learned is distilled as it is",
    )
    if not isinstance(settings, EvolveSettings) or not isinstance(before, EvolveSettings):
        raise ConfigError(f"{args.run_dir} evolved no part of a learner")
    for name in ("evaluations", "formulas"):
        if not 1 <= getattr(args, name) <= 10**8:
            raise ConfigError(f"--{name} = {getattr(args, name)}: must be from 1 to 10^8")
    search = Search(args.evaluations, args.formulas)
    return distill(before, settings, args.run_dir, args.slot, args.name, search)
