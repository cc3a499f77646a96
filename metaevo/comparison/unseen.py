"""Learned parts on several tasks: untuned, against contenders that are tuned on each task.

The tasks are those of `evaluation.unseen`, or those of an evolution on several tasks.

Scores of all tasks are pooled on a scale from 0 (random play) to 1 (the tuned reference), which are
measured on separate seeds. Scores of finished tasks are stored on disk.
"""

import dataclasses
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import jax
import numpy as np

from metaevo import statistics
from metaevo.comparison import entries
from metaevo.comparison.comparison import Comparison, Variant, digest, digest_of_text, summary
from metaevo.comparison.entries import Replacement
from metaevo.comparison.evaluation import LEARNED
from metaevo.comparison.protocol import contender_maker, task_of
from metaevo.comparison.settings import JudgedSettings
from metaevo.components.seen import SeenTask
from metaevo.config import ConfigError, from_dict, merge, show, to_dict
from metaevo.config.files import read_json, write_json_atomic
from metaevo.config.plain import PlainMapping
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.runs.progress import Progress
from metaevo.runs.schema import (
    Carried,
    HeldOut,
    Judgement,
    Scale,
    Together,
    Unseen,
    UnseenResult,
    UnseenScores,
)
from metaevo.training import sampling
from metaevo.training.checks import check_training
from metaevo.training.task import Parts, TaskConfig, make_environments
from metaevo.training.tasks import NamedTask
from metaevo.tuning.ranges import Entry
from purerl.types import Environment, EnvParams

KEPT = "unseen"
"""Folder of stored scores on unseen tasks."""
SEEN = "seen"
"""Folder of stored scores on the tasks of the evolution."""
NOT_WORSE = 0.1
"""A rule is not worse if the whole interval of its difference from the best hand-written one is
above minus this, on the scale from 0 (random play) to 1 (the tuned reference)."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class BuiltTask(NamedTuple):
    """A named task with its settings and environment."""

    name: str
    settings: JudgedSettings
    """settings of the evolution, with this task"""
    parts: Parts


class Seen(NamedTuple):
    """An environment that an evolution sees."""

    name: str
    env: Environment | None
    """None if its parameters are unknown: then all of them count as seen"""
    env_params: EnvParams
    sample: Mapping[str, Entry] = {}
    """what is drawn of its parameters, by their names"""
    rule: str = ""
    """the setting of a rule that was evolved there before; empty for this evolution"""


def build(settings: JudgedSettings, name: str, change: NamedTask, parts: Parts) -> BuiltTask:
    """Build a named task without compilation.

    Raises:
        ConfigError: if it cannot be built.
    """
    own = settings_of(settings, name, change)
    task = TaskConfig(change.env or name, change.env_params)
    built = parts._replace(environments=make_environments(task, settings.learner))
    entries.check(own, built)
    example = jax.eval_shape(parts.evolved.init, jax.random.key(0))
    (bound,) = built.tasks(own, parts.evolved.functions(), example)
    check_training(name, bound, own.hyperparams, example, kept=1, at_once=1)
    return BuiltTask(name, own, built)


def build_all(
    settings: JudgedSettings, tasks: Mapping[str, NamedTask] | None, parts: Parts, where: str
) -> list[BuiltTask]:
    """Build named tasks without compilation.

    Args:
        settings: settings of the evolution.
        tasks: the tasks by name; None for none.
        parts: the evolved parts.
        where: the setting that has the tasks, for the error message.

    Raises:
        ConfigError: naming the task, if it cannot be built.
    """
    found = []
    for name, change in (tasks or {}).items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigError(
                f"{where}: {show(name)} must have only letters, digits, '.', '_', '-', "
                "with the environment's below it: {env: suite/name}"
            )
        try:
            found.append(build(settings, name, change, parts))
        except ConfigError as error:
            raise ConfigError(f"{where}.{name}: {error}") from None
    return found


def unseen_tasks(settings: JudgedSettings, seen: Sequence[Seen], parts: Parts) -> list[BuiltTask]:
    """Build the tasks of `evaluation.unseen` without compilation.

    Args:
        settings: settings of the evolution.
        seen: environments of the evolution's candidates.
        parts: the evolved parts.

    Raises:
        ConfigError: naming the task, if it cannot be built or was used in the evolution.
    """
    tasks, where = settings.evaluation.unseen, "evaluation.unseen"
    built = build_all(settings, tasks, parts, where)
    for name, change in tasks.items():
        (this,) = seen_in(TaskConfig(change.env or name, change.env_params), settings.learner)
        for other in seen:
            if _same(this, other):
                by = f"{other.rule} was evolved on" if other.rule else "evolution sees"
                raise ConfigError(f"{where}.{name}: {by} this task (task.env = {this.name})")
    return built


def seen_in(
    task: TaskConfig, learner: str, sample: Mapping[str, Entry] | None = None
) -> list[Seen]:
    """Return the environments of a task, with default observations."""
    bare = [(name, {key: value for key, value in changes.items() if key != "observations"})
            for name, changes in task.items()]  # fmt: skip
    return [Seen(*made, sample or {}) for name, changes in bare
            for made in make_environments(TaskConfig(name, changes), learner)]  # fmt: skip


def seen_by_rule(rule: str, tasks: Sequence[SeenTask], settings: JudgedSettings) -> list[Seen]:
    """Return what a rule saw before of the environments in `evaluation.unseen`.

    Args:
        rule: the setting that names the rule, for the error message.
        tasks: all tasks that it has seen.
        settings: settings of the evolution that uses it.
    """
    wanted = {change.env or name for name, change in settings.evaluation.unseen.items()}
    found = []
    for name, env, env_params, _, sample in tasks:
        if env not in wanted:
            continue
        if env_params is None:
            found.append(Seen(env, None, None, rule=rule))
        else:
            entries = sampling.read(sample, f"{rule}: tasks.{name}.sample")
            drawn = sampling.of_prefix(entries, sampling.ENV_PARAMS)
            built = seen_in(TaskConfig(env, env_params), settings.learner, drawn)
            found += [each._replace(rule=rule) for each in built]
    return found


def judge(
    tasks: list[BuiltTask],
    learned: PlainMapping,
    path: Path,
    *,
    evolution_frames: int,
    check_stop: Callable[[], None],
    kept: str = KEPT,
    replacements: Mapping[str, Replacement] | None = None,
) -> Unseen:
    """Compare learned parts, untuned, with contenders that are tuned on every task.

    Args:
        tasks: the return value of `build_all` or `unseen_tasks`.
        learned: meta-parameters of each evolution by name of the entry.
        path: directory for scores of finished tasks and tuning of unfinished ones.
        evolution_frames: environment steps of an evolution, for `tuning_seeds: null`.
        check_stop: raises if the run should stop; called between chunks of agents.
        kept: name of the folder of stored scores.
        replacements: parts by name of the entry, to compare untuned in the place of learned ones.

    Returns:
        the result of `aggregate`.
    """
    (path / kept).mkdir(exist_ok=True)
    purpose = Purpose.HELD_OUT if kept == SEEN else Purpose.UNSEEN
    replacements = replacements or {}
    comparisons = [
        _comparison(task, learned, evolution_frames, purpose, replacements) for task in tasks
    ]
    total = sum(each.frames + 2 * each.config.seeds * each.frames_per_seed for each in comparisons)
    results = {}
    with Progress(total=total, desc=f"{kept} tasks", unit="frame", unit_scale=True) as bar:

        def progress(frames: int) -> None:
            bar.update(frames)
            check_stop()

        for task, this in zip(tasks, comparisons, strict=True):
            file = path / kept / f"{task.name}.json"
            key = digest_of_text(
                str([this.context, to_dict(this.config), evolution_frames, digest(dict(learned))])
            )
            scores = _read(file, key, this)
            if scores is None:

                def stage(text: str, task: BuiltTask = task) -> None:
                    bar.stage(f"{task.name}: {text}")

                scores = _scores_of(task, this, key, path / kept, progress, stage)
                write_json_atomic(file, scores)
            else:
                bar.update(this.frames + 2 * this.config.seeds * this.frames_per_seed)
            results[task.name] = _result(scores, this)
    return aggregate(results, [*learned, *replacements])


def aggregate(
    results: Mapping[str, UnseenResult], discovered: Sequence[str] = (LEARNED,)
) -> Unseen:
    """Pool tasks on their scales; intervals are stratified by task.

    Tasks without a scale, because the tuned reference is not better than random play, are left out.

    Args:
        results: results by task.
        discovered: names of the learned entries, one for each evolution.

    Returns:
        all results, and the `summary` of the normalised scores [seeds, tasks] if any task has a
        scale.
    """
    scaled = [(each, scale) for each in results.values() if (scale := each["scale"]) is not None]
    found: Unseen = {
        "tasks": dict(results),
        "without_scale": [name for name, each in results.items() if each["scale"] is None],
    }
    if not scaled:
        return found
    variants, values, diverged = [], {}, {}
    first = scaled[0][0]
    for place, row in enumerate(first["variants"]):
        name = row["name"]
        rows = [(each["variants"][place], scale) for each, scale in scaled]
        spent = sum(each["tuning_frames"] for each, _ in rows)
        variants.append(Variant(name, row["function"], {}, spent))
        diverged[name] = sum(each["diverged"] for each, _ in rows)
        columns = [
            (np.asarray(each["scores"]) - scale["random"]) / (scale["reference"] - scale["random"])
            for each, scale in rows
        ]
        values[name] = np.stack(columns, axis=1)
    pooled: HeldOut = {
        **summary(variants, values, diverged, discovered),
        "tuning_settings": first["tuning_settings"],
        "tuning_rounds": first["tuning_rounds"],
    }
    judged = pooled.get("together", pooled["against_best"])
    return cast(Unseen, {**pooled, **found, "carried": carried(judged)})


def carried(judged: Judgement | Together) -> Carried:
    """Return the verdict on a rule, or on several, where it was not evolved.

    Args:
        judged: the comparison with the best hand-written variant, on normalised scores.
    """
    if judged["conclusion"] == "undecided" and judged["difference_interval"][0] > -NOT_WORSE:
        return "not worse"
    return judged["conclusion"]


def settings_of(settings: JudgedSettings, name: str, change: NamedTask) -> Any:
    """Return the settings of an evolution with the changes of a named task."""
    plain = to_dict(settings)
    plain["task"] = {"env": change.env or name, "env_params": change.env_params}
    for section in ("train", "hyperparams"):
        plain[section] = merge(plain[section], getattr(change, section))
    plain |= {"tasks": None, "tasks_per_generation": None}
    plain["evaluation"]["unseen"] = {}
    return from_dict(type(settings), plain)


def _same(this: Seen, seen: Seen) -> bool:
    """Return whether an evolution sees an environment; `envs.make` caches by its arguments."""
    if this.name != seen.name or seen.env is None:
        return this.name == seen.name
    if this.env is not seen.env:
        return False
    fields = [field.name for field in dataclasses.fields(this.env_params)]
    return all(
        sampling.contains(seen.sample[name], getattr(this.env_params, name))
        if name in seen.sample
        else jax.tree.all(
            jax.tree.map(
                np.array_equal, getattr(this.env_params, name), getattr(seen.env_params, name)
            )
        )
        for name in fields
    )


def _comparison(
    task: BuiltTask,
    learned: PlainMapping,
    evolution_frames: int,
    purpose: Purpose,
    replacements: Mapping[str, Replacement],
) -> Comparison:
    settings = task.settings
    contender = contender_maker(settings, task.parts)
    return Comparison(
        entries.entries_of(settings, task.parts, learned, contender, replacements),
        settings.evaluation,
        seed=settings.run.seed,
        evolution_frames=evolution_frames,
        normalisation=None,
        context=entries.context_of(task_of(settings), replacements),
        learned=len(learned) + len(replacements),
        tunes_found=False,
        purpose=purpose,
    )


def _scores_of(
    task: BuiltTask,
    this: Comparison,
    key: str,
    directory: Path,
    progress: Callable[[int], Any],
    stage: Callable[[str], Any],
) -> UnseenScores:
    """Tune and train on a task; return the scores to keep under a key."""
    result, _ = this.run(directory / f"tuning-{task.name}", progress, stage)
    stage("random play")
    reference = this.names[0]
    tuned = next(row for row in reversed(result["variants"]) if row["function"] == reference)
    plain, still = vars(task.settings.hyperparams), task.settings.hyperparams.random_play()
    changed = {key: value for key, value in vars(still).items() if value != plain[key]}
    ends = [
        Variant("random", reference, changed, 0),
        Variant("reference", reference, tuned["settings"], 0),
    ]
    keys = keys_for(this.seed, Purpose.NORMALISATION, this.config.seeds)
    scores = statistics.fill_missing(
        {name: each.fitness[:, 0] for name, each in this.train(ends, keys, progress).items()}
    )
    return {
        "key": key,
        "variants": [
            {
                "name": row["name"],
                "function": row["function"],
                "settings": row["settings"],
                "tuning_frames": row["tuning_frames"],
                "diverged": row["diverged"],
                "scores": row["scores"],
            }
            for row in result["variants"]
        ],
        "random": scores["random"].tolist(),
        "reference": scores["reference"].tolist(),
    }


def _result(kept: UnseenScores, this: Comparison) -> UnseenResult:
    """Compare the scores on one task, and measure its scale."""
    rows = kept["variants"]
    found = summary(
        [
            Variant(row["name"], row["function"], row["settings"], row["tuning_frames"])
            for row in rows
        ],
        {row["name"]: np.asarray(row["scores"]) for row in rows},
        {row["name"]: row["diverged"] for row in rows},
        this.discovered,
    )
    scale: Scale | None = None
    if (
        statistics.compare(kept["reference"], kept["random"], shared_seeds=True).conclusion
        == "better"
    ):
        low, high = (float(np.mean(kept[name])) for name in ("random", "reference"))
        if high > low:  # which a heavy tail can prevent
            scale = {"random": low, "reference": high}
    plan = this.plans[this.found]
    return {
        **found,
        "scale": scale,
        "tuning_settings": plan.settings,
        "tuning_rounds": [[each.settings, each.seeds] for each in plan.rounds],
        "frames_per_agent": this.frames_per_seed,
    }


def _read(file: Path, key: str, this: Comparison) -> UnseenScores | None:
    """Read the scores of a finished task; None without scores for this key."""
    if not file.exists():
        return None
    try:
        kept = read_json(file, UnseenScores)
        if kept["key"] != key:
            return None
        rows = kept["variants"]
        functions = [row["function"] for row in rows]
        lengths = {len(row["scores"]) for row in rows}
        lengths |= {len(kept["random"]), len(kept["reference"])}
        expected = {*this.discovered, *this.names}
        once = len({row["name"] for row in rows}) == len(rows)
        if functions[0] != this.found or set(functions) != expected or not once:
            raise ConfigError(f"{file}: holds the scores of others")
        if lengths != {this.config.seeds}:
            raise ConfigError(f"{file}: must hold {this.config.seeds} scores of each variant")
    except ConfigError as error:
        warnings.warn(f"judging again: {error}", stacklevel=2)
        return None
    return kept
