"""An entry of the zoo made from a run of evolution, with the evidence that the run left."""

import os
import shlex
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from metaevo.components import channels, discovery, filling, players, registry, seen, zoo
from metaevo.components.slots import SLOTS
from metaevo.config import ConfigError, files, merge, show, to_dict
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.runs import checkpoint
from metaevo.runs.quick import is_quick
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.schema import HeldOut, SavedConfig
from purerl.types import MetaParams

SECTIONS = "train", "hyperparams", "fitness"
ORIGIN = "role", "channel", "sample", "component", "game", "opponent", "strategy", "evolution"
"""Sections of a run's settings that a card keeps, if the run has them."""
KEPT = ("name", "iqm", "interval", "seeds", "settings", "tuning_frames")
"""Keys of a variant in evaluation.json that a card has."""
WIDTH, COLORS = 800, 64
"""Pixels and colours of a picture."""


def add(
    run_dir: Path,
    name: str,
    *,
    title: str | None = None,
    replace: bool = False,
) -> zoo.Entry:
    """Make an entry from the part that a run has evolved.

    Args:
        run_dir: run that evolved a component, a channel or a meta-policy.
        name: name of the entry.
        title: a one-line description.
        replace: replace an existing entry with this name, as its next version.

    Returns:
        the entry, as it is loaded from now on.

    Raises:
        ConfigError: if the run has no held-out evidence, or cannot be an entry for another reason.
    """
    if not zoo.NAME.fullmatch(name):
        raise ConfigError(f"{show(name)}: must be a name of small letters, digits, '-' and '_'")
    if name in zoo.names() and not replace:
        raise ConfigError(
            f"{zoo.PREFIX}{name} exists: entries do not change; name this one otherwise, or "
            "replace it by its next version: --replace"
        )
    run = RunDirectory.open(run_dir)
    saved = run.read_config()
    config = saved["config"]
    if is_quick(config):
        raise ConfigError(f"{run.path} was a quick look (--quick), which is no evidence")
    if not os.path.lexists(run.evaluation_path):
        raise ConfigError(
            f"{run.path} has no held-out evidence ({run.evaluation_path.name}): let it end, with "
            "evaluation.seeds above 0"
        )
    evidence: PlainDict = files.read_json(run.evaluation_path, HeldOut)
    if (other := discovery.other_of(run.path)) is None:
        rule = _part(run, config)
    else:
        rule = _channel(run, config) if other is channels else _shaper(run, config)
    card = {
        "name": name,
        "version": 1 + (zoo.find(name).card["version"] if name in zoo.names() else 0),
        **dict.fromkeys(("learner", "function", "component")),
        **rule.card,
        **({"title": title} if title else {}),
        "origin": _origin(run, saved, evidence),
        "held_out": _held_out(rule, evidence),
        "repeat": _repeats(rule, evidence),
    }
    figures = [run.figures / each for each in rule.pictures]
    try:
        with tempfile.TemporaryDirectory(dir=zoo.FOLDER) as folder:
            new, place = Path(folder) / name, zoo.FOLDER / name
            checkpoint.save_tree(new / "meta_params", rule.meta_params, rule.metadata)
            if rule.source is not None:
                (new / "component").mkdir()
                source = new / "component" / f"{rule.card['component']}.py.txt"
                files.write_atomic(source, rule.source)
            if (figure := next(filter(Path.is_file, figures), None)) is not None:
                _shrink(figure, new / "picture.png")
            zoo.seal(new, card)
            if place.exists():
                shutil.rmtree(place)
            new.rename(place)
    except OSError as error:
        raise files.unwritable(zoo.FOLDER, error) from None
    return zoo.find(name)


class _Rule(NamedTuple):
    """The result of a run."""

    card: PlainDict
    """slot, title, settings, and the learner and the component, if any"""
    meta_params: MetaParams
    metadata: PlainDict
    pictures: Sequence[str]
    """file names; the first that exists goes to the card"""
    judged_on: str
    experiments: dict[str, PlainDict]
    """settings that reproduce its score, on each task; of a single task by the empty name"""
    source: bytes | None = None
    """source code of the component"""
    frames: int | None = None
    """per seed; None for the same number as in the evidence"""
    is_against: bool = False
    """whether its fitness is the negative of the card's score"""


def _part(run: RunDirectory, config: PlainDict) -> _Rule:
    if "study" in config:
        raise ConfigError(
            f"{run.path}: study = {show(config['study'])}: an entry fills a slot of a learner, or "
            "is a channel or a meta-policy of matrix games"
        )
    if config.get("channel", channels.NONE) != channels.NONE:
        raise ConfigError(
            f"{run.path}: its agents heard channel = {show(config['channel'])}: an entry is of "
            "agents that hear none"
        )
    evolved, meta_params = discovery.load_all(run.path)
    if evolved.is_dict:
        raise ConfigError(f"{run.path} evolved several parts together; an entry holds one")
    (part,) = evolved.parts.values()
    source = registry.source_of(part.module)
    if source is None:
        raise ConfigError(f"{run.path}: the source of {part.name} is not to be found")
    learner, settings = config["learner"], to_dict(part.config)
    own = {} if part.hyperparams is None else {"hyperparams": to_dict(part.hyperparams)}
    return _Rule(
        card={
            "slot": part.slot.name,
            "learner": learner,
            "title": f"{part.name} for {learner}",
            "component": part.name,
            "settings": settings,
        },
        meta_params=meta_params,
        metadata={"component": part.name, "config": settings, "learner": learner, **own},
        pictures=part.slot.hook(part.module, "CAPTIONS") or (),
        judged_on=", ".join(each.name for each in seen.in_settings(config))
        + " (normalised: 0 random play, 1 the tuned reference)" * bool(config.get("tasks")),
        experiments=_experiments(config, part.slot.name),
        source=source,
    )


def _channel(run: RunDirectory, config: PlainDict) -> _Rule:
    meta_params, about = checkpoint.load_tree(run.meta_params)
    role, env, learner = about["role"], config["task"]["env"], config["learner"]
    return _Rule(
        card={
            "slot": channels.SETTING,
            "learner": learner,
            "title": f"{role} of {learner} on {env}",
            "settings": about["channel"],
        },
        meta_params=meta_params,
        metadata={key: about[key] for key in ("channel", "role", "learner")},
        pictures=["messages.png"],
        judged_on=f"{env}, fitness of an {role}",
        experiments=_experiments(config, channels.SETTING),
        is_against=role == "adversary",
    )


def _shaper(run: RunDirectory, config: PlainDict) -> _Rule:
    game, met = config["game"], config["opponent"]["names"]
    if not isinstance(met, str) or not (met in players.NAMES or zoo.is_name(met)):
        raise ConfigError(
            f"{run.path}: {players.SETTING} = {show(met)}: an entry is of a run with one opponent "
            f"that everybody has: one of {', '.join(players.NAMES)}, or zoo:NAME"
        )
    meta_params, about = checkpoint.load_tree(run.meta_params)
    rows = [[f"{each:g}" for each in row] for row in game["payoffs"]]
    where = f"[[{'], ['.join(map(', '.join, rows))}]]"
    return _Rule(
        card={
            "slot": players.SETTING,
            "title": f"meta-policy that shapes {met} in the game {where}",
            "settings": {"hidden": about["hidden"]},
        },
        meta_params=meta_params,
        metadata={"hidden": about["hidden"]},
        pictures=["meta_episode.png"],
        judged_on=f"payoff a step against {met} in the game {where}",
        experiments={"": {key: config[key] for key in ("game", "opponent")}},
        frames=game["steps"],
    )


def _experiments(config: PlainMapping, slot: str) -> dict[str, PlainDict]:
    """Return the experiments that reproduce the scores of a slot function."""
    if not config.get("tasks"):
        return {"": _experiment(config, slot)}
    found = {}
    for task in seen.in_settings(config):
        changed = {key: merge(config[key], each) for key, each in task.changes.items()}
        own = {"task": {"env": task.env, "env_params": task.env_params}, **changed}
        found[task.name] = _experiment({**config, **own}, slot)
    return found


def _experiment(config: PlainMapping, slot: str) -> PlainDict:
    learner = config["learner"]
    others = {
        each: config.get(each, SLOTS[each].names(learner)[0])
        for each in filling.slots_of(learner)
        if each != slot
    }
    sections = {key: config[key] for key in ("task", *SECTIONS)}
    own = {key: value for key, value in config["hyperparams"].items() if key != "component"}
    return {**sections, "hyperparams": own, "functions": others}


def _origin(run: RunDirectory, saved: SavedConfig, evidence: PlainDict) -> PlainDict:
    """Return how the entry was evolved."""
    config, where = saved["config"], saved["environment"]
    git = where.get("git") or {"commit": "unknown", "dirty": False}
    seeds = [each["seed"] for each in evidence.get("evolutions", [])] or [config["run"]["seed"]]
    tasks = ("tasks", "tasks_per_generation") if config.get("tasks") else ("task",)
    return {
        "command": _command(where["command_line"]),
        "commit": git["commit"][:9] + "+" * git["dirty"],
        "date": str(where["started"])[:10],
        "jax": where.get("jax"),
        "seeds": seeds,
        "frames": evidence["evolution_frames"] * len(seeds),
        "config": {key: config[key] for key in (*ORIGIN, *tasks, *SECTIONS) if key in config},
    }


def _command(line: str) -> str:
    """Return the command of a run without paths of its machine."""
    words = shlex.split(line)
    names = [i for i, word in enumerate(words) if Path(word).name == "metaevo"]
    words = ["metaevo", *words[names[0] + 1 :]] if names else ["python", *words[1:]]
    for flag in ("--run-dir", "--cache-dir"):
        if flag in words:
            at = words.index(flag)
            del words[at : at + 2]
    return shlex.join(words)


def _held_out(rule: _Rule, evidence: PlainDict) -> PlainDict:
    """Return the card's summary of the comparison on held-out seeds."""
    return {
        "env": rule.judged_on,
        "frames_per_agent": rule.frames or evidence["frames_per_agent"],
        "conclusion": evidence["conclusion"],
        "against_best": evidence["against_best"],
        "variants": [{key: row[key] for key in KEPT} for row in evidence["variants"]],
        "evolutions": evidence.get("evolutions", []),
        "together": evidence.get("together"),
    }


def _repeats(rule: _Rule, evidence: PlainDict) -> PlainDict:
    """Return the reproducible score, or the scores on all tasks."""
    functions = {row["name"]: row["function"] for row in evidence["variants"]}
    learned = functions.get(evidence["learned"])
    if "" in rule.experiments:
        return _repeat(rule, rule.experiments[""], evidence["variants"], learned)
    judged = evidence.get("seen", {"tasks": {}})["tasks"]
    if missing := sorted(rule.experiments.keys() - judged.keys()):
        raise ConfigError(f"the evidence has no scores on the tasks {', '.join(missing)}")
    tasks = rule.experiments.items()
    scores = {name: _repeat(rule, each, judged[name]["variants"], learned) for name, each in tasks}
    return {"tasks": scores}


def _repeat(
    rule: _Rule, experiment: PlainDict, variants: list[PlainDict], learned: str | None
) -> PlainDict:
    """Return a reproducible score: of the learned part, untuned."""
    rows = [row for row in variants if row["function"] == learned and not row["tuning_frames"]]
    if not rows:
        raise ConfigError("the evidence has no untuned scores of what was found")
    scores = np.ravel(np.asarray(rows[0]["scores"], float))
    if len(scores) < 2 or not np.isfinite(scores).all():
        raise ConfigError("the evidence has too few finite scores of what was found")
    scores = -scores if rule.is_against else scores
    return {
        "experiment": experiment,
        "seeds": len(scores),
        "mean": float(scores.mean()),
        "std": float(scores.std(ddof=1)),
    }


def _shrink(figure: Path, path: Path) -> None:
    """Write a figure of a run with a few colours, at most 800 pixels wide."""
    with Image.open(figure) as image:
        small = image.convert("RGB")
    small.thumbnail((WIDTH, WIDTH))
    small.quantize(COLORS).save(path, "PNG", optimize=True)
