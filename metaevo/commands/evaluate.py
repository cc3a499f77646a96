"""Judge an evolved part on a task unseen during evolution, such as another grid or game.

The judgement is that of the end of the run, on other tasks. Evolution is not repeated.
"""

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metaevo.commands.run_options import (
    Parser,
    computing,
    parse_settings,
    settings_in,
    without_env_params,
)
from metaevo.config import ConfigError, from_dict, load_yaml, to_dict
from metaevo.config.documentation import changed_keys
from metaevo.config.plain import PlainDict
from metaevo.runs.run_directory import RunDirectory

if TYPE_CHECKING:
    from metaevo.evolution.problem import MetaParams
    from metaevo.studies.settings import EvolutionSettings, EvolveSettings
    from metaevo.studies.study import Study

FREE = "evaluation.", "evolution.chunk_size"
"""Settings that may differ for every study, in addition to `changed.free`."""


def main(argv: list[str]) -> int:
    """Parse a command line, compare, return the exit code."""
    parser = computing("evaluate")
    text = "the run that evolved it; latest: the last run"
    parser.add_argument("--run-dir", metavar="DIR", help=text)
    text = "results go to DIR/transfer/NAME; default: the environment's name"
    parser.add_argument("--name", help=text)
    parser.add_argument(
        "--unseen", nargs="?", const="", metavar="FILE",
        help="judge it on the tasks of a YAML file (Acrobot-v1: {}), or of its evaluation.unseen",
    )  # fmt: skip
    parser.add_argument(
        "--comparison", choices=("quick", "full"), default="full", metavar="SIZE",
        help="size of the comparison: quick, full (default)",
    )  # fmt: skip
    settings, before, args = settings_of_run(
        parser,
        argv,
        lambda saved, args: with_unseen(saved, _unseen(saved, args.unseen)),
        fixed="a part is judged as it is",
        also=("run.",),
    )
    from metaevo.studies.settings import EvolveSettings, resized

    if isinstance(settings, EvolveSettings):
        assert isinstance(before, EvolveSettings)
        _check_task(settings, before, unseen=args.unseen is not None)
        name = "tasks" if settings.tasks else settings.task.env
        name = name if args.unseen is None else "unseen"
    elif args.unseen is not None:
        raise ConfigError("--unseen: is for parts of a learner; the run has evolved something else")
    else:
        name = _changes(settings, before)
    data = to_dict(settings)
    data["evaluation"] = resized(data["evaluation"], args.comparison)
    return _judge(from_dict(type(settings), data), args, name)


def settings_of_run(
    parser: Parser,
    argv: list[str],
    adapted: Callable[[PlainDict, argparse.Namespace], PlainDict],
    *,
    fixed: str,
    also: tuple[str, ...] = (),
) -> "tuple[EvolutionSettings, EvolutionSettings, argparse.Namespace]":
    """Parse a command line with the settings of a run, `adapted` to the flags, as defaults.

    `also` are prefixes of further settings that may differ, and `fixed` is the reason why others
    may not.

    Returns:
        the new settings, the run's own settings, and the flags.

    Raises:
        ConfigError: if the directory has no evolved part, or other settings change.
    """
    saved: PlainDict = {}

    def defaults(args: argparse.Namespace, overrides: PlainDict) -> PlainDict:
        if args.run_dir is None:
            raise ConfigError(f"missing the run whose result is judged, see {parser.prog} --help")

        def adapt(config: PlainDict) -> PlainDict:
            saved.update(config)
            if not {"evolve", "problem"} & saved.keys():
                raise ConfigError(f"{args.run_dir} holds no evolved part: nothing evolved there")
            return without_env_params(overrides, adapted(saved, args))

        return settings_in(args, overrides, adapt)

    settings, args = parse_settings(parser, argv, defaults)
    if args.config is not None:
        raise ConfigError("--config: settings are the run's, changed on the command line")
    from metaevo.studies.changed import free

    before, able = from_dict(type(settings), saved), (*free(settings), *FREE, *also)
    changed = [key for key in changed_keys(saved, to_dict(settings)) if not key.startswith(able)]
    if changed:
        allowed = ", ".join(able)
        raise ConfigError(f"{', '.join(changed)}: {fixed}; what may change begins with {allowed}")
    return settings, before, args


def _check_task(settings: "EvolveSettings", before: "EvolveSettings", *, unseen: bool) -> None:
    """Raise `ConfigError` if the run already has this comparison, or if settings conflict."""
    from metaevo.studies.changed import judged_on

    if unseen:
        if not settings.evaluation.unseen:
            raise ConfigError(
                "--unseen: the run's settings have no evaluation.unseen; name a YAML file of tasks"
            )
        if settings.task != before.task:
            raise ConfigError("task: with --unseen it is the run's; name tasks in a YAML file")
    elif before.tasks:
        if settings.task != before.task:
            raise ConfigError("task: for a rule of several tasks, name others with --unseen FILE")
    elif settings.evaluation.unseen:
        raise ConfigError("evaluation.unseen: is judged with --unseen")
    elif judged_on(settings) == judged_on(before):
        raise ConfigError(
            "this is the task of the run itself, which its own report judges; change it with "
            "--task.env or --task.env_params.KEY (or --train, --hyperparams, --fitness)"
        )


def _changes(settings: "EvolutionSettings", before: "EvolutionSettings") -> str:
    """Return a name for settings that differ from a run's: the changed ones."""
    from metaevo.studies.changed import free, judged_on

    found = changed_keys(judged_on(before), judged_on(settings))
    if not found:
        raise ConfigError(
            f"this is what the report of the run itself judges; change a setting that begins with "
            f"{', '.join((*free(settings), 'evaluation.'))}"
        )
    names = [
        f"{key}={new}".replace("/", "_")
        if isinstance(new, int | float | str)
        else ".".join(key.split(".")[:2])
        for key, (_, new) in found.items()
    ]
    return "_".join(dict.fromkeys(names))


def with_unseen(saved: PlainDict, changes: PlainDict) -> PlainDict:
    """Return a run's settings with other unseen tasks, and their whole budget.

    Those of a run of another study are returned as they are.
    """
    evaluation = saved.get("evaluation")
    if "evolve" not in saved or not isinstance(evaluation, dict):
        return saved
    return saved | {"evaluation": evaluation | {"quick_unseen": False} | changes}


def _unseen(saved: PlainDict, file: str | None) -> PlainDict:
    """Return the unseen tasks of an evaluation, if they differ from the run's."""
    if file:
        return {"unseen": load_yaml(Path(file))}
    # Without the flag, the question is another task.
    return {"unseen": {}} if file is None and not saved.get("tasks") else {}


def _judge(settings: "EvolutionSettings", args: argparse.Namespace, name: str) -> int:
    """Repeat the judgement at the end of a run with other settings; return the exit code.

    Its directory has this name, unless the flags have another one.
    """
    from metaevo.parts.part import LEARNED
    from metaevo.reports.page import Table
    from metaevo.studies.changed import judge_in, planned
    from metaevo.studies.conclusion import Result, write_report
    from metaevo.studies.study import Study
    from metaevo.tasks.problem import LearnerProblem

    if not to_dict(settings)["evaluation"]["seeds"]:
        raise ConfigError(
            "evaluation.seeds = 0: must be at least 1 for a comparison; set --evaluation.seeds 128"
        )
    run_dir, only_unseen = args.run_dir, args.unseen is not None
    study = Study(settings.build(run_dir), settings)
    study.check()
    meta_params = _found(study, run_dir)
    learned = {LEARNED: meta_params}
    if args.dry_run:
        judgements = study.judgements(learned, only_unseen=only_unseen)
        print(Table("Plan", ["", ""], planned(judgements)).text())
        return 0
    run = RunDirectory(run_dir / "transfer" / (args.name or name))

    def work(check_stop: Callable[[], None]) -> None:
        study.draw(meta_params, run.figures)
        judged = study.compare(learned, run.path, check_stop=check_stop, only_unseen=only_unseen)
        source = run_dir if isinstance(study.problem, LearnerProblem) else None
        write_report(study, run, Result(meta_params, source, dict(judged)))

    return judge_in(run, settings, {}, work)


def _found(study: "Study", run_dir: Path) -> "MetaParams":
    """Return the meta-parameters that a run has found."""
    from metaevo.evolution.problem import check_candidate
    from metaevo.parts.resolve import parts_of
    from metaevo.runs import checkpoint
    from metaevo.tasks.problem import LearnerProblem

    if isinstance(study.problem, LearnerProblem):
        return parts_of(run_dir)[1]
    path = RunDirectory(run_dir).meta_params
    if not os.path.isfile(path):
        raise ConfigError(f"{run_dir} has not found anything yet (no {path.name} in it)")
    found: Any = checkpoint.load_tree(path)[0]
    check_candidate(study.problem, found, str(path))
    return found
