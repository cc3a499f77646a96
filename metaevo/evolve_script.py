"""The command line of `experiments/evolve_*.py`: one thin script per component calls `main`."""

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from metaevo.command_line import parse_command_line
from metaevo.config import ConfigError, exit_on_config_error, from_dict, load_yaml, to_dict
from metaevo.experiment import experiment_class
from metaevo.run_directory import RunDirectory
from metaevo.runner import run_evolution


@exit_on_config_error()
def main(argv: list[str], *, component: str, description: str | None) -> int:
    """Parse a command line, run the experiment, return the exit code.

    Args:
        argv: without the program's name.
        component: what is evolved, a key of `COMPONENTS`.
        description: for `--help`.
    """
    experiment = f"evolve_{component}"
    quick = Path("configs") / experiment / "quick.yaml"

    def defaults(args: argparse.Namespace) -> dict[str, Any]:
        """A resumed run has its own settings; a new one those of the quick preset."""
        if args.resume:
            if args.run_dir is None:
                raise ConfigError("--resume needs --run-dir: the directory of the run to continue")
            return RunDirectory.open(args.run_dir).read_config()["config"]
        return load_yaml(_in_project(quick))

    def make_class(raw: dict[str, Any]) -> type:
        return experiment_class(raw, component)

    parser = run_parser(description)
    parser.add_argument(
        "--generations",
        type=int,
        metavar="N",
        help="how many in all; short for --evolution.generations",
    )
    settings: Any
    settings, args = parse_command_line(parser, argv, make_class, defaults)
    if args.generations is not None:
        data = to_dict(settings)
        data["evolution"]["generations"] = args.generations
        settings = from_dict(type(settings), data)
    settings = with_wandb(settings, args.wandb)
    return run_evolution(
        settings, component, run_dir=args.run_dir, resume=args.resume, experiment=experiment
    )


def run_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the flags that all scripts with a run directory share."""
    parser = argparse.ArgumentParser(
        description=description,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--run-dir", type=Path, metavar="DIR", help="default: runs/<experiment>/<timestamp>"
    )
    parser.add_argument(
        "--resume", action="store_true", help="continue the run in --run-dir from its checkpoint"
    )
    parser.add_argument(
        "--wandb",
        nargs="?",
        const="offline",
        choices=("disabled", "offline", "online"),
        help="mirror the run to Weights & Biases; offline if no mode is given",
    )
    return parser


def with_wandb(settings: Any, mode: str | None) -> Any:
    """Return the settings with the tracking mode of the command line, if there is one."""
    if mode is None:
        return settings
    return dataclasses.replace(settings, run=dataclasses.replace(settings.run, wandb=mode))


def _in_project(path: Path) -> Path:
    """Find a shipped config from any working directory."""
    return path if path.exists() else Path(__file__).resolve().parent.parent / path
