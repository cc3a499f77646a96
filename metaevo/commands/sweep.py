"""Command line of `metaevo sweep`."""

import argparse
from dataclasses import replace
from pathlib import Path

from metaevo.commands.run_options import run_parser, settings_to_resume, with_trackers
from metaevo.components import discovery
from metaevo.config import (
    ConfigError,
    changed_keys,
    dump_yaml,
    exit_on_config_error,
    from_dict,
    load_yaml,
    to_dict,
)
from metaevo.config.command_line import parse_command_line
from metaevo.config.plain import PlainDict
from metaevo.reports.page import Table
from metaevo.runs.quick import quickened
from metaevo.studies.sweeps import make_objective, sweep_class
from metaevo.training.population import Population
from metaevo.tuning.config import SearchSettings
from metaevo.tuning.objective import Plan
from metaevo.tuning.run import run_sweep
from metaevo.tuning.space import Space

METHODS = {"grid": "grid", "random": "random", "sobol": "random", "tpe": "bayes", "cma_es": "bayes"}
"""Samplers and the closest wandb methods."""

FLAGS = {
    "--dry-run": "print what the sweep would do: trials, compilations, frames, memory",
    "--worker": "train trials of the sweep in --run-dir, next to its leading process",
    "--print-wandb-sweep": "print a sweep definition for `wandb sweep`; its agents call this "
    "script",
    "--single": "train one trial with the settings as they are given (called by wandb's agents)",
}


@exit_on_config_error()
def main(argv: list[str], *, description: str | None) -> int:
    """Parse arguments without the program's name, sweep, and return the exit code."""
    parser = run_parser("sweep", description)
    flags = parser.add_mutually_exclusive_group()
    for flag, text in FLAGS.items():
        flags.add_argument(flag, action="store_true", help=text)
    discovery.add_flag(parser)

    def saved(args: argparse.Namespace, overrides: PlainDict) -> PlainDict:
        _check_worker(args)
        if not (args.resume or args.worker):
            return {}
        return settings_to_resume("sweep", args, overrides)

    settings, args = parse_command_line(parser, argv, sweep_class, saved, quickened)
    settings = with_trackers(settings, args)
    discovery.use(args.code)
    if args.print_wandb_sweep:
        return _print_definition(settings, args.config)
    if args.single:
        return _run_single(settings, args.run_dir)
    objective = make_objective(settings)
    if args.dry_run:
        plan = objective.plan()
        print(_table(plan, settings, objective.space).text())
        for reason in plan.invalid:
            print(f"warning: a static combination cannot be trained: {reason}")
        return 0
    _check_worker(args)
    return run_sweep(
        objective, settings, run_dir=args.run_dir, resume=args.resume, worker=args.worker
    )


def _table(plan: Plan, settings: SearchSettings, space: Space) -> Table:
    """Return the table that `--dry-run` prints."""
    config = settings.sweep
    rows: list[list[object]] = [
        ["trials", f"{plan.trials} x {config.seeds} seeds, {config.sampler}"],
        ["scheduler", config.scheduler],
        ["static groups", plan.groups if plan.groups is not None else "unbounded"],
        ["compilations", plan.compilations()],
        ["frames of the search", plan.search_frames],
    ]
    if plan.search_frames < plan.full_frames:
        share = plan.search_frames / plan.full_frames
        rows.append(["share of the frames without a scheduler", f"{share:.0%}"])
    rows.append(["frames of the confirmation", plan.confirm_frames])
    if isinstance(program := plan.program, Population):
        most = f"at most {program.chunk_size} on each of {program.num_devices}"
        rows.append(["agents at once", most])
        rows.append(["memory of a chunk", f"{program.memory_bytes / 2**20:,.1f} MiB"])
    return Table("Plan", ["", ""], rows, note=f"Searched: {', '.join(space.distributions)}")


def _check_worker(args: argparse.Namespace) -> None:
    if args.worker and (args.resume or args.run_dir is None):
        raise ConfigError("--worker needs --run-dir, the sweep to help with, and no --resume")


def _print_definition(settings: SearchSettings, config: Path | None) -> int:
    """Print a sweep definition with agents that call `metaevo sweep --single`, online."""
    if config is None:
        raise ConfigError("--print-wandb-sweep needs --config FILE, which the agents read too")
    space = make_objective(settings).space
    in_file = to_dict(from_dict(type(settings), load_yaml(config)))
    changed = [  # on the command line, which agents have to repeat
        f"--{key}={dump_yaml([new], flow=True).strip()[1:-1]}"
        for key, (_, new) in changed_keys(in_file, to_dict(settings)).items()
        if not key.startswith(("space", "run.wandb"))
    ]
    definition = {
        "program": "metaevo",
        "method": METHODS[settings.sweep.sampler],
        "metric": {"name": "trial/value", "goal": "maximize"},
        "run_cap": settings.sweep.trials,
        "parameters": space.to_wandb(),
        "command": [
            "${env}", "${interpreter}", "-m", "${program}", "sweep",
            "--single", "--wandb", "online", "--config", str(config), *changed, "${args}",
        ],
    }  # fmt: skip
    print(dump_yaml(definition), end="")
    return 0


def _run_single(settings: SearchSettings, run_dir: Path | None) -> int:
    """Train one trial with the settings as they are; its objective is `trial/value` in wandb."""
    sweep = replace(
        settings.sweep, trials=1, sampler="random", scheduler="none", confirm_seeds=0, storage=None
    )
    settings = replace(settings, space={}, sweep=sweep)
    objective = make_objective(settings, Space({}, {}))
    return run_sweep(objective, settings, run_dir=run_dir, resume=False)
