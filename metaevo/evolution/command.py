"""The command line of `experiments/evolve_*.py`: one thin script per component calls `main`."""

import argparse
from pathlib import Path
from typing import Any

from metaevo.agents.task import learner_entry
from metaevo.components import discovery, find, known
from metaevo.config import ConfigError, exit_on_config_error, from_dict, load_yaml, to_dict
from metaevo.config.command_line import parse_command_line
from metaevo.evolution.run import run_study
from metaevo.parallel import hosts
from metaevo.runs.lifecycle import (
    for_environment_of,
    in_project,
    run_parser,
    settings_to_resume,
    with_trackers,
)
from metaevo.studies.learner import LearnerStudy
from metaevo.studies.settings import EvolveSettings, experiment_class


@exit_on_config_error()
def main(argv: list[str], *, component: str | None, description: str | None) -> int:
    """Parse a command line, run the experiment, return the exit code.

    Of several processes the first one parses; the others get its settings.

    Args:
        argv: without the program's name.
        component: what is evolved unless the settings say otherwise (`evolve:`); its quick preset
            holds the settings of a run that is given none.
        description: for `--help`.
    """
    with hosts.together():
        given = hosts.of_first(lambda: _parse(argv, component, description))
        data = given["settings"]
        run_dir = given["run_dir"]
        settings = from_dict(experiment_class(data, component), data)
        run_path = None if run_dir is None else Path(run_dir)
        resume, trusts = given["resume"], given["trust_source"]
        study = hosts.agreed(
            lambda: LearnerStudy(settings, run_path if resume else None, trust_source=trusts)
        )
        return run_study(study, settings, run_dir=run_path, resume=resume)


def _parse(argv: list[str], component: str | None, description: str | None) -> dict[str, Any]:
    """Return the settings as plain data, the run directory and whether to resume it."""

    def defaults(args: argparse.Namespace, overrides: dict[str, Any]) -> dict[str, Any]:
        """A resumed run has its own settings; a new one those of its learner's quick preset."""
        if args.resume:
            saved = settings_to_resume(args, overrides)
            discovery.refuse_unnamed(saved, overrides, trust_source=args.trust_source)
            return saved
        if component is None:
            return {}
        learner = overrides.get("learner", "ppo")
        slot = find(component).SLOT
        if slot not in learner_entry(learner).slots:
            raise ConfigError(
                f"learner = {learner!r} has no slot {slot!r}, which {component} fills"
            )
        name = "quick.yaml" if learner == "ppo" else f"{learner}_quick.yaml"
        preset = load_yaml(in_project(Path("configs") / f"evolve_{component}" / name))
        return for_environment_of(overrides, preset)

    def make_class(raw: dict[str, Any]) -> type[EvolveSettings]:
        wants_help = any(each in ("-h", "--help") for each in argv)  # of some component, then
        return experiment_class(raw, component or (known()[0] if wants_help else None))

    parser = run_parser(description)
    short = {"generations": "how many in all", "num_devices": "how many to use, of all processes"}
    for name, text in short.items():
        parser.add_argument(
            f"--{name.removeprefix('num_')}",
            type=int,
            metavar="N",
            dest=name,
            help=f"{text}; short for --evolution.{name}",
        )
    discovery.add_flag(parser)
    hosts.add_flags(parser)
    settings, args = parse_command_line(parser, argv, make_class, defaults)
    data = to_dict(settings)
    data["evolution"] |= {
        name: getattr(args, name) for name in short if getattr(args, name) is not None
    }
    settings = with_trackers(from_dict(type(settings), data), args)
    return {
        "settings": to_dict(settings),
        "run_dir": None if args.run_dir is None else str(args.run_dir),
        "resume": args.resume,
        "trust_source": args.trust_source,
    }
