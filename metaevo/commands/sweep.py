"""The command line of a sweep."""

import argparse
from typing import Any

from metaevo.components import discovery
from metaevo.config import ConfigError, exit_on_config_error
from metaevo.config.command_line import parse_command_line
from metaevo.runs.lifecycle import run_parser, settings_to_resume, with_trackers
from metaevo.runs.quick import quickened
from metaevo.sweep.plan import make_plan
from metaevo.sweep.run import make_trials, run_sweep
from metaevo.sweep.settings import sweep_class
from metaevo.sweep.wandb_agent import print_definition, run_single


@exit_on_config_error()
def main(argv: list[str], *, description: str | None) -> int:
    """Parse a command line, sweep, return the exit code.

    Args:
        argv: without the program's name.
        description: for `--help`.
    """
    parser = run_parser("sweep", description)
    flags = parser.add_mutually_exclusive_group()
    flags.add_argument(
        "--dry-run",
        action="store_true",
        help="print what the sweep would do: trials, compilations, frames, memory",
    )
    flags.add_argument(
        "--worker",
        action="store_true",
        help="train trials of the sweep in --run-dir, beside the process that leads it",
    )
    flags.add_argument(
        "--print-wandb-sweep",
        action="store_true",
        help="print a sweep definition for `wandb sweep`, whose agents call this script",
    )
    flags.add_argument(
        "--single",
        action="store_true",
        help="train one trial with the settings as they are given (what wandb's agents call)",
    )

    discovery.add_flag(parser)

    def saved(args: argparse.Namespace, overrides: dict[str, Any]) -> dict[str, Any]:
        _check_worker(args)
        if not (args.resume or args.worker):
            return {}
        kept = settings_to_resume(args, overrides, is_mirrored=not args.worker)
        discovery.refuse_unnamed(kept, overrides, trust_source=args.trust_source)
        return kept

    settings, args = parse_command_line(parser, argv, sweep_class, saved, quickened)
    settings = with_trackers(settings, args)
    if args.print_wandb_sweep:
        return print_definition(settings, args.config)
    if args.single:
        return run_single(settings, args.run_dir)
    if args.dry_run:
        trials = make_trials(settings)
        plan = make_plan(trials)
        print(plan.table(settings, trials.space).text())
        for reason in plan.invalid:
            print(f"warning: a static combination cannot be trained: {reason}")
        return 0
    _check_worker(args)
    return run_sweep(settings, run_dir=args.run_dir, resume=args.resume, worker=args.worker)


def _check_worker(args: argparse.Namespace) -> None:
    if args.worker and (args.resume or args.run_dir is None):
        raise ConfigError("--worker needs --run-dir, the sweep to help with, and no --resume")
