"""What was found on tasks that its evolution has not seen: untuned, against contenders tuned there.

Every task has a scale of its own, from 0 (random play) to 1 (the tuned reference), both measured on
seeds of their own; on it the scores of all tasks are pooled. A finished task is kept on disk.
"""

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from metaevo import statistics
from metaevo.comparison import entries
from metaevo.comparison.comparison import Comparison, Variant, digest, digest_of_text, summary
from metaevo.comparison.evaluation import LEARNED, UnseenTask
from metaevo.comparison.protocol import contender_maker, task_of
from metaevo.comparison.settings import JudgedSettings
from metaevo.config import ConfigError, from_dict, merge, show, to_dict
from metaevo.config.files import read_json, write_json_atomic
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.runs import schema
from metaevo.runs.progress import Progress
from metaevo.training.checks import check_training
from metaevo.training.task import Parts, TaskConfig, make_environments

KEPT = "unseen"
"""The folder of what is kept."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Unseen(NamedTuple):
    """A task with all that it takes to train there."""

    name: str
    settings: JudgedSettings
    """of an evolution on this task"""
    parts: Parts


def unseen_tasks(settings: JudgedSettings, seen: TaskConfig, parts: Parts) -> list[Unseen]:
    """Build the tasks of `evaluation.unseen`; nothing is compiled.

    Args:
        settings: of the evolution.
        seen: what its candidates are trained on.
        parts: of the evolution.

    Raises:
        ConfigError: naming a task that cannot be built, or that evolution sees.
    """
    known = _bare(seen, settings.learner)
    found = []
    for name, change in settings.evaluation.unseen.items():
        where = f"evaluation.unseen.{name}"
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigError(
                f"evaluation.unseen: {show(name)} must have only letters, digits, '.', '_', '-', "
                "with the environment's below it: {env: suite/name}"
            )
        try:
            own = _settings_of(settings, name, change)
            task = TaskConfig(change.env or name, change.env_params)
            built = parts._replace(environments=make_environments(task, settings.learner))
            entries.check(own, built)
            example = jax.eval_shape(parts.evolved.init, jax.random.key(0))
            (bound,) = built.tasks(own, parts.evolved.functions(), example)
            check_training(where, bound, own.hyperparams, example, kept=1, at_once=1)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None
        (this,) = _bare(task, settings.learner)
        if any(_same(this, other) for other in known):
            raise ConfigError(f"{where}: evolution sees this task (task.env = {this[0]})")
        found.append(Unseen(name, own, built))
    return found


def judge(
    tasks: list[Unseen],
    learned: Mapping[str, Any],
    path: Path,
    *,
    evolution_frames: int,
    check_stop: Callable[[], None],
) -> dict[str, Any]:
    """Compare what was found, untuned, with contenders tuned on every task.

    Args:
        tasks: of `unseen_tasks`.
        learned: the meta-parameters of every evolution, by the names of their contenders.
        path: of the directory that keeps finished tasks, and the tuning of an unfinished one.
        evolution_frames: what evolution used, for `tuning_seeds: null`.
        check_stop: raises if the run is to stop; called between chunks of agents.

    Returns:
        what `aggregate` says.
    """
    (path / KEPT).mkdir(exist_ok=True)
    comparisons = [_comparison(task, learned, evolution_frames) for task in tasks]
    total = sum(each.frames + 2 * each.config.seeds * each.frames_per_seed for each in comparisons)
    results = {}
    with Progress(total=total, desc="unseen tasks", unit="frame", unit_scale=True) as bar:

        def progress(frames: int) -> None:
            bar.update(frames)
            check_stop()

        for task, this in zip(tasks, comparisons, strict=True):
            file = path / KEPT / f"{task.name}.json"
            key = digest_of_text(
                str([this.context, to_dict(this.config), evolution_frames, digest(dict(learned))])
            )
            kept = _read(file, key, this)
            if kept is None:

                def stage(text: str, task: Unseen = task) -> None:
                    bar.stage(f"{task.name}: {text}")

                kept = {"key": key, **_scores_of(task, this, path / KEPT, progress, stage)}
                write_json_atomic(file, kept)
            else:
                bar.update(this.frames + 2 * this.config.seeds * this.frames_per_seed)
            results[task.name] = _result(kept, this.discovered) | {
                "tuning_settings": this.plans[this.found].settings,
                "tuning_rounds": [[r.settings, r.seeds] for r in this.plans[this.found].rounds],
                "frames_per_agent": this.frames_per_seed,
            }
    return aggregate(results, list(learned))


def aggregate(
    results: Mapping[str, dict[str, Any]], discovered: Sequence[str] = (LEARNED,)
) -> dict[str, Any]:
    """Pool tasks, each on its own scale; the interval is stratified by task.

    Of several evolutions the evolution is the unit: `together`, as in evaluation.json.

    A task without a scale, where tuning the reference was no better than random play, is named and
    left out.

    Args:
        results: of every task: `variants` as in evaluation.json, and `scale`, which has the mean
            scores `random` and `reference`, or is None.
        discovered: the contenders that evolutions have found.

    Returns:
        what `summary` says of the normalised scores [seeds, tasks] (nothing if no task has a
        scale), `tasks` and `without_scale`.
    """
    scaled = {name: each for name, each in results.items() if each["scale"] is not None}
    found: dict[str, Any] = {
        "tasks": dict(results),
        "without_scale": [name for name in results if name not in scaled],
    }
    if not scaled:
        return found
    variants, values, diverged = [], {}, {}
    first = next(iter(scaled.values()))
    for place, row in enumerate(first["variants"]):
        name = row["name"]
        rows = [each["variants"][place] for each in scaled.values()]
        spent = sum(each["tuning_frames"] for each in rows)
        variants.append(Variant(name, row["function"], {}, spent))
        diverged[name] = sum(each["diverged"] for each in rows)
        columns = []
        for each, result in zip(rows, scaled.values(), strict=True):
            low, high = result["scale"]["random"], result["scale"]["reference"]
            columns.append((np.asarray(each["scores"]) - low) / (high - low))
        values[name] = np.stack(columns, axis=1)
    about = {key: first[key] for key in ("tuning_settings", "tuning_rounds")}
    return summary(variants, values, diverged, discovered) | about | found


def _settings_of(settings: JudgedSettings, name: str, change: UnseenTask) -> Any:
    plain = to_dict(settings)
    plain["task"] = {"env": change.env or name, "env_params": change.env_params}
    for section in ("train", "hyperparams"):
        plain[section] = merge(plain[section], getattr(change, section))
    plain["evaluation"]["unseen"] = {}
    return from_dict(type(settings), plain)


def _bare(task: TaskConfig, learner: str) -> list[tuple[str, Any, Any]]:
    """The environments of a task, whatever form their observations have."""
    bare = [(name, {key: value for key, value in changes.items() if key != "observations"})
            for name, changes in task.items()]  # fmt: skip
    return [made for name, changes in bare
            for made in make_environments(TaskConfig(name, changes), learner)]  # fmt: skip


def _same(one: tuple[str, Any, Any], other: tuple[str, Any, Any]) -> bool:
    """Whether two environments are one: `envs.make` returns one object for equal arguments."""
    if one[0] != other[0] or one[1] is not other[1]:
        return False
    pairs = zip(jax.tree.leaves(one[2]), jax.tree.leaves(other[2]), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


def _comparison(task: Unseen, learned: Mapping[str, Any], evolution_frames: int) -> Comparison:
    settings = task.settings
    return Comparison(
        entries.entries_of(settings, task.parts, learned, contender_maker(settings, task.parts)),
        settings.evaluation,
        seed=settings.run.seed,
        evolution_frames=evolution_frames,
        normalisation=None,
        context=str(task_of(settings)),
        learned=len(learned),
        tunes_found=False,
        purpose=Purpose.UNSEEN,
    )


def _scores_of(
    task: Unseen,
    this: Comparison,
    directory: Path,
    progress: Callable[[int], Any],
    stage: Callable[[str], Any],
) -> dict[str, Any]:
    """Tune and train on a task; return what is kept of it."""
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
    names = ("name", "function", "settings", "tuning_frames", "diverged", "scores")
    return {
        "variants": [{name: row[name] for name in names} for row in result["variants"]],
        **{name: each.tolist() for name, each in scores.items()},
    }


def _result(kept: Mapping[str, Any], discovered: Sequence[str]) -> dict[str, Any]:
    """Say of one task what evaluation.json says of a run, and its scale."""
    rows = kept["variants"]
    found = summary(
        [Variant(*(row[field] for field in Variant._fields)) for row in rows],
        {row["name"]: np.asarray(row["scores"]) for row in rows},
        {row["name"]: row["diverged"] for row in rows},
        discovered,
    )
    scale = None
    if (
        statistics.compare(kept["reference"], kept["random"], shared_seeds=True).conclusion
        == "better"
    ):
        scale = {name: float(np.mean(kept[name])) for name in ("random", "reference")}
        if not scale["reference"] > scale["random"]:  # a heavy tail
            scale = None
    return {**found, "scale": scale}


def _read(file: Path, key: str, this: Comparison) -> dict[str, Any] | None:
    """Return what is kept of a finished task; None if there is none, or of something else."""
    if not file.exists():
        return None
    try:
        kept: dict[str, Any] = read_json(file, schema.UnseenScores)
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
