"""Command line of `metaevo distill`."""

from metaevo.config import ConfigError, code, exit_on_config_error
from metaevo.config.command_line import Parser
from metaevo.discovery.distill import distill
from metaevo.runs.run_directory import run_argument
from metaevo.studies.changed import settings_of_run, with_unseen
from metaevo.studies.evolve_settings import EvolveSettings


@exit_on_config_error()
def main(argv: list[str], *, description: str | None) -> int:
    """Parse a command line, distill, return the exit code."""
    parser = Parser("distill", description)
    parser.add_argument("run_dir", nargs="?", type=run_argument, metavar="RUN", help="the run")
    parser.add_argument("--name", help="results go to RUN/distill/NAME; by default the slot's name")
    parser.add_argument("--slot", help="which part, if the run has evolved several")
    sizes = {"evaluations": 150_000, "formulas": 6}
    for name, size in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=size, metavar="N")
    code.add_flag(parser)
    settings, before, args = settings_of_run(
        parser,
        argv,
        lambda saved, args: with_unseen(saved, {}),
        fixed="what was learned is distilled as it is",
    )
    if not isinstance(settings, EvolveSettings) or not isinstance(before, EvolveSettings):
        raise ConfigError(f"{args.run_dir} evolved no part of a learner")
    for name in sizes:
        if not 1 <= getattr(args, name) <= 10**8:
            raise ConfigError(f"--{name} = {getattr(args, name)}: must be from 1 to 10^8")
    own = {name: getattr(args, name) for name in ("slot", "name", *sizes)}
    return distill(before, settings, args.run_dir, **own)
