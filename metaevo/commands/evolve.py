"""Command line of `metaevo evolve`: parse flags and settings, and start a run."""

import argparse
from pathlib import Path
from typing import Any

from metaevo.commands.processes import add_process_flags, multi_process, wanted
from metaevo.commands.run_options import parse_settings, run_parser, start_jax, without_env_params
from metaevo.config import find_preset, from_dict, load_yaml, preset_names, to_dict
from metaevo.config.plain import PlainDict, is_name

DEFAULT = "evolve_value_loss/q_learning"
"""Preset of a run without a part, a learner or a task of the user's."""
PARTS = ("optimizer", "value_loss")
"""Default parts where the user names a learner or a task: the first with a preset for it."""
SLOTS = {
    "value_loss": "value_loss",
    "policy_loss": "drift",
    "make_optimizer": "optimizer",
    "schedule": "schedule",
    "update_rule": "lpg",
    "targets": "targets",
}
"""Parts whose presets serve a user's own part, by its slot."""
LEARNERS = ("q_learning", "dqn", "ppo", "pqn", "lpg")
"""Learners to search for a preset if the user names no learner, the quickest first."""
SHORT = {
    "--generations": ("evolution.generations", "how many in all"),
    "--devices": ("evolution.num_devices", "how many to use, of all processes"),
    "--evolution-seeds": ("run.evolution_seeds", "evolve N times, with consecutive seeds"),
}
"""Flags that are short for a setting, and their help."""


def main(argv: list[str]) -> int:
    """Parse a command line, run the experiment, return the exit code.

    With several processes, the first one parses and the others receive its settings.
    """
    several = wanted(argv)
    parsed = _parse(argv) if several is None else None
    start_jax(several)
    from metaevo.evolution import devices

    with multi_process():
        given = parsed or devices.broadcast_from_first(lambda: _parse(argv))
        from metaevo.studies.run import run_evolutions
        from metaevo.studies.settings import settings_class
        from metaevo.studies.study import Study

        data, resume = given["settings"], given["resume"]
        run_path = Path(given["run_dir"]) if given["run_dir"] else None
        if given["code"]:
            from metaevo.config import code

            devices.raise_on_all(lambda: code.use(given["code"], data))
        settings = from_dict(settings_class(data), data)
        problem = devices.raise_on_all(lambda: settings.build(run_path if resume else None))
        study = Study(problem, settings)
        if given["dry_run"]:
            from metaevo.studies.run import plan

            table = devices.raise_on_all(lambda: plan(study))
            if devices.is_first():
                print(table.text())
            return 0
        return run_evolutions(study, run_dir=run_path, resume=resume)


def _parse(argv: list[str]) -> PlainDict:
    """Return the settings as plain data, the run directory and whether to resume it."""

    def defaults(args: argparse.Namespace, overrides: PlainDict) -> PlainDict:
        """Return a preset."""
        if "problem" in overrides:
            return {}
        learner = overrides.get("learner")
        what = overrides.get("evolve")
        if what is None and not {"learner", "task", "tasks", "component"} & overrides.keys():
            return load_yaml(find_preset(DEFAULT))
        if what is None:
            what = next((each for each in PARTS if _preset(each, learner)), PARTS[-1])
        preset = _preset(what, learner)
        if "task" in overrides and "evaluation" in preset:
            preset["evaluation"].pop("unseen", None)  # chosen for the preset's task
        return {"evolve": what, **without_env_params(overrides, preset)}

    parser = run_parser("evolve")
    for flag, (name, text) in SHORT.items():
        parser.add_argument(flag, dest=name, metavar="N", help=f"{text}: --{name}")
    parser.add_argument(
        "--comparison", choices=("none", "quick", "full"), default="full", metavar="SIZE",
        help="size of the comparison at the end: none, quick, full (default)",
    )  # fmt: skip
    add_process_flags(parser)
    settings, args = parse_settings(parser, argv, defaults)
    from metaevo.studies.settings import resized

    data = to_dict(settings)
    data["evaluation"] = resized(data["evaluation"], args.comparison)
    return {
        "settings": data,
        "run_dir": None if args.run_dir is None else str(args.run_dir),
        "resume": args.resume,
        "dry_run": args.dry_run,
        "code": args.code,
    }


def _preset(component: Any, learner: Any) -> PlainDict:
    """Return the preset of a part for a learner (or the quickest one); {} if there is none.

    A user's own part uses the preset of a part of metaevo for the same slot.
    """
    names, what, own = preset_names(), component, is_name(component)
    if own:
        start_jax()
        from metaevo.parts.learners import part_class

        what = SLOTS.get(part_class(component).slot)
    for each in LEARNERS if learner is None else [learner]:
        if (name := f"evolve_{what}/{each}") in names:
            found = load_yaml(find_preset(name))
            return {key: found[key] for key in found if not own or key != "component"}
    return {}
