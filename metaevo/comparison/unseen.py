"""Learned parts on several tasks, against contenders that are tuned on each task.

The parts are untuned there, or with `evaluation.tune_learned` tuned like the contenders.

The tasks come from `evaluation.unseen`, or from an evolution on several tasks.

Scores of all tasks are pooled on a scale from 0 (random play) to 1 (the tuned reference), which are
measured on separate seeds. Scores of finished tasks are stored on disk.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import jax
import numpy as np
from numpy.typing import ArrayLike

from metaevo import statistics
from metaevo.comparison import entries
from metaevo.comparison.cache import cached_in
from metaevo.comparison.comparison import Comparison, Variant, digest, digest_of_text, summary
from metaevo.comparison.evaluation import JudgedSettings
from metaevo.comparison.protocol import comparison_of
from metaevo.config import ConfigError, from_dict, merge, show, to_dict
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.parts.part import LEARNED
from metaevo.parts.seen import SeenTask
from metaevo.runs.progress import Progress
from metaevo.runs.schema import (
    Carried,
    HeldOut,
    Judgement,
    Measured,
    Scale,
    Together,
    Unseen,
    UnseenResult,
    UnseenScores,
)
from metaevo.tasks import sampling
from metaevo.tasks.binding import Experiment, TaskConfig, make_environment
from metaevo.tasks.memory import check_training
from metaevo.tasks.task import Task
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


class Seen(NamedTuple):
    """An environment that an evolution sees."""

    name: str
    env: Environment
    env_params: EnvParams
    sample: Mapping[str, Entry] = {}
    """distributions of its parameters, by their names"""
    rule: str = ""
    """the setting of a rule that was evolved there before; empty for this evolution"""


def build_all(
    settings: JudgedSettings,
    tasks: Mapping[str, Task] | None,
    experiment: Experiment,
    where: str,
) -> dict[str, Experiment]:
    """Build the experiment on named tasks without compilation.

    `settings` are those of the evolution, and `where` names the setting that has the tasks.

    Raises:
        ConfigError: naming the task, if it cannot be built.
    """
    found = {}
    evolved = experiment.evolved
    example = jax.eval_shape(evolved.init, jax.random.key(0))
    for name, change in (tasks or {}).items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigError(
                f"{where}: {show(name)} must have only letters, digits, '.', '_' and '-'; "
                "the environment may have another name: env: NAME"
            )
        try:
            own = settings_of(settings, name, change)
            environment = make_environment(own.task, own.learner)
            built = experiment._replace(settings=own, environment=environment)
            entries.check(built)
            bound = built.task(evolved.functions(), example)
            check_training(name, bound, own.hyperparams, example, kept=1, at_once=1)
        except ConfigError as error:
            raise ConfigError(f"{where}.{name}: {error}") from None
        found[name] = built
    return found


def unseen_tasks(
    settings: JudgedSettings, seen: Sequence[Seen], experiment: Experiment
) -> dict[str, Experiment]:
    """Build the tasks of `evaluation.unseen` without compilation.

    Raises:
        ConfigError: naming the task, if it cannot be built or was used in the evolution.
    """
    tasks, where = settings.evaluation.unseen, "evaluation.unseen"
    built = build_all(settings, tasks, experiment, where)
    for name, task in built.items():
        this = seen_in(task.settings.task, settings.learner)
        for other in seen:
            if _same(this, other):
                by = f"{other.rule} was evolved on" if other.rule else "evolution sees"
                raise ConfigError(f"{where}.{name}: {by} this task (task.env = {this.name})")
    return built


def seen_in(task: TaskConfig, learner: str, sample: Mapping[str, Entry] | None = None) -> Seen:
    """Return the environment of a task, with default observations."""
    bare = {key: value for key, value in task.env_params.items() if key != "observations"}
    return Seen(*make_environment(TaskConfig(task.env, bare), learner), sample or {})


def seen_by(rule: str, tasks: Sequence[SeenTask], settings: JudgedSettings) -> list[Seen]:
    """Return which environments of `evaluation.unseen` an evolution sees, or a rule has seen.

    Args:
        rule: the setting that names the rule, for the error message; empty for the evolution.
        tasks: all tasks that it has seen.
        settings: settings of the evolution.
    """
    wanted = {change.env or name for name, change in settings.evaluation.unseen.items()}
    found = []
    for name, env, env_params, _, sample in tasks:
        if env not in wanted:
            continue
        entries = sampling.read(sample, f"{rule}: tasks.{name}.sample")
        drawn = sampling.of_prefix(entries, sampling.ENV_PARAMS)
        built = seen_in(TaskConfig(env, env_params), settings.learner, drawn)
        found.append(built._replace(rule=rule))
    return found


def judge(
    tasks: Mapping[str, Experiment],
    learned: PlainMapping,
    path: Path,
    *,
    evolution_frames: int,
    check_stop: Callable[[], None],
    kept: str = KEPT,
) -> Unseen:
    """Compare learned parts with contenders that are tuned on every task.

    Args:
        tasks: the return value of `build_all` or `unseen_tasks`.
        learned: meta-parameters of each evolution by name of the entry.
        path: directory for scores of finished tasks and tuning of unfinished ones.
        evolution_frames: environment steps of an evolution, for `tuning_seeds: null`.
        check_stop: raises if the run should stop; called between chunks of agents.
        kept: name of the folder of stored scores.

    Returns:
        the result of `aggregate`.
    """
    (path / kept).mkdir(exist_ok=True)
    comparisons = [
        comparison_of(
            task,
            learned,
            evolution_frames=evolution_frames,
            tunes_found=task.settings.evaluation.tune_learned,
            purpose=Purpose.HELD_OUT if kept == SEEN else Purpose.UNSEEN,
        )
        for task in tasks.values()
    ]
    ends = [each.frames + 2 * each.config.seeds * each.frames_per_seed for each in comparisons]
    results: dict[str, UnseenResult] = {}
    done = 0
    with Progress(
        total=sum(ends), desc=f"{kept} tasks", unit="frame", unit_scale=True, check_stop=check_stop
    ) as bar:
        for name, this, end in zip(tasks, comparisons, ends, strict=True):
            key = digest_of_text(
                str([this.context, to_dict(this.config), evolution_frames, digest(dict(learned))])
            )

            def stage(text: str, name: str = name) -> None:
                bar.stage(f"{name}: {text}")

            def train(name: str = name, this: Comparison = this) -> PlainDict:
                rows, _ = this.measure(path / kept / f"tuning-{name}", bar.update, stage)
                stage("random play")
                return {"variants": rows, **scores_of_ends(this, rows, bar.update)}

            scores = cached_in(path / kept / f"{name}.json", UnseenScores, key, train)
            done += end
            bar.update(done - bar.n)  # of a finished task, all at once
            scale = scale_of(scores["random"], scores["reference"])
            results[name] = {**this.judge(scores["variants"]), "scale": scale}
    return aggregate(results, list(learned))


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
    rows = []
    first = scaled[0][0]
    for place, row in enumerate(first["variants"]):
        same = [(each["variants"][place], scale) for each, scale in scaled]
        columns = [on_scale(each["scores"], scale) for each, scale in same]
        spent = sum(each["tuning_frames"] for each, _ in same)
        diverged = sum(each["diverged"] for each, _ in same)
        variant = Variant(row["name"], row["function"], {}, spent)
        rows.append(variant.measured(np.stack(columns, axis=1), diverged))
    pooled: HeldOut = {
        **summary(rows, discovered),
        "tuning_settings": first["tuning_settings"],
        "tuning_seeds": first["tuning_seeds"],
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


def settings_of(settings: JudgedSettings, name: str, change: Task) -> Any:
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
    if this.name != seen.name or this.env is not seen.env:
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


def scores_of_ends(
    this: Comparison, rows: Sequence[Measured], progress: Callable[[int], Any]
) -> dict[str, list[float]]:
    """Train agents of random play and of the reference, the ends of a task's scale.

    Args:
        this: the comparison on the task.
        rows: its measured variants; the reference's last one is tuned.
        progress: called after each chunk of agents.

    Returns:
        their scores, as `random` and `reference`.
    """
    reference = this.names[0]
    tuned = next(row["settings"] for row in reversed(rows) if row["function"] == reference)
    plain = this.entries[reference].population.hyperparams
    still, before = plain.random_play(), vars(plain)
    changed = {key: value for key, value in vars(still).items() if value != before[key]}
    ends = [Variant("random", reference, changed, 0), Variant("reference", reference, tuned, 0)]
    keys = keys_for(this.seed, Purpose.NORMALISATION, this.config.seeds)
    scores = statistics.fill_missing(
        {name: each.scores for name, each in this.train(ends, keys, progress).items()}
    )
    return {name: each.tolist() for name, each in scores.items()}


def on_scale(scores: ArrayLike, scale: Scale) -> np.ndarray:
    """Return scores on the scale of a task."""
    return (np.asarray(scores) - scale["random"]) / (scale["reference"] - scale["random"])


def scale_of(random: Sequence[float], reference: Sequence[float]) -> Scale | None:
    """Return the scale of a task from the scores of its ends; None if they do not differ."""
    if statistics.compare(reference, random, shared_seeds=True).conclusion != "better":
        return None
    low, high = float(np.mean(random)), float(np.mean(reference))
    if high <= low:  # as with a heavy tail
        return None
    return {"random": low, "reference": high}
