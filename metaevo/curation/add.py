"""An entry of the zoo made from a run of evolution, with the evidence that the run left."""

import io
import os
import shlex
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from annotated_types import Len
from PIL import Image

from metaevo import zoo
from metaevo.components import channels, discovery, filling, registry
from metaevo.components.slots import SLOTS
from metaevo.config import ConfigError, show, to_dict
from metaevo.runs import checkpoint, files, schema
from metaevo.runs.quick import is_quick
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.schema import Index, Number, Text

SECTIONS = ("task", "train", "hyperparams", "fitness")
KEPT = ("name", "iqm", "interval", "seeds", "settings", "tuning_frames")
"""Of a variant of evaluation.json."""
WIDTH, COLORS = 800, 16
"""Of a picture."""


@dataclass(frozen=True)
class _Judged:
    name: Text
    function: Text
    settings: dict[str, Any]
    tuning_frames: Index
    scores: Annotated[list[Number | Annotated[list[Number], Len(1, 1)]], Len(2)]
    """of every seed, or of every seed on its one task"""
    iqm: Number
    interval: Annotated[list[Number], Len(2, 2)]


@dataclass(frozen=True)
class _Evidence:
    variants: Annotated[list[_Judged], Len(2)]
    pairs: Annotated[list[dict[str, Any]], Len(1)]
    against_best: dict[str, Any]
    learned: Text
    """the name of the best variant of what was found"""
    conclusion: Text
    evolution_frames: Index


def add(
    run_dir: Path,
    name: str,
    *,
    title: str | None = None,
    replace: bool = False,
    trust_source: bool = False,
) -> zoo.Entry:
    """Make an entry of what a run has evolved.

    Args:
        run_dir: of an evolution of one component, or of several evolutions of it.
        name: of the entry.
        title: one line that says what it is.
        replace: put it in the place of an entry of that name, as its next version.
        trust_source: execute the component's source that the run has saved.

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
    evidence = _evidence_of(run, saved["config"])
    config = saved["config"]
    rule = _rule_of(run, config, trust_source)
    version = 1 + (zoo.find(name).card["version"] if name in zoo.names() else 0)
    card = {
        "name": name,
        "version": version,
        "title": title or rule.title,
        "slot": rule.slot,
        "learner": config["learner"],
        "function": None,
        "component": rule.component,
        "settings": rule.settings,
        "origin": _origin(run, saved, evidence),
        "held_out": _held_out(config, evidence),
        "repeat": _repeat(config, evidence, rule.slot),
    }
    try:
        with tempfile.TemporaryDirectory(dir=zoo.FOLDER) as folder:
            new = Path(folder) / name
            checkpoint.save_tree(new / "meta_params", rule.meta_params, rule.metadata)
            if rule.source is not None:
                (new / "component").mkdir()
                files.write_atomic(new / "component" / f"{rule.component}.py.txt", rule.source)
            figures = (_picture(run.figures / name) for name in rule.pictures)
            picture = next(filter(None, figures), None)
            if picture is not None:
                files.write_atomic(new / "picture.png", picture)
            zoo.seal(new, card)
            place = zoo.FOLDER / name
            if place.exists():
                shutil.rmtree(place)
            new.rename(place)
    except OSError as error:
        raise files.unwritable(zoo.FOLDER, error) from None
    return zoo.find(name)


class _Rule(NamedTuple):
    """What a run has found."""

    slot: str
    title: str
    component: str | None
    settings: dict[str, Any]
    meta_params: Any
    metadata: dict[str, Any]
    source: bytes | None
    """of the component"""
    pictures: Sequence[str]
    """of which the first one that there is goes to the card"""


def _rule_of(run: RunDirectory, config: dict[str, Any], trust_source: bool) -> _Rule:
    if channels.is_one(run.path):
        meta_params, about = checkpoint.load_tree(run.meta_params)
        title = f"{about['role']} of {config['learner']} on {config['task']['env']}"
        kept = {key: about[key] for key in ("channel", "role", "learner")}
        pictures = ["messages.png"]
        return _Rule(
            channels.SLOT, title, None, about["channel"], meta_params, kept, None, pictures
        )
    if "study" in config:
        raise ConfigError(
            f"{run.path}: study = {show(config['study'])}: an entry fills a slot of a learner, or "
            "is a channel"
        )
    if config.get("channel", channels.NONE) != channels.NONE:
        raise ConfigError(
            f"{run.path}: its agents heard channel = {show(config['channel'])}: an entry is of "
            "agents that hear none"
        )
    evolved, meta_params = discovery.load_all(run.path, trust_source=trust_source)
    if evolved.is_dict:
        raise ConfigError(f"{run.path} evolved several parts together; an entry holds one")
    (part,) = evolved.parts.values()
    source = registry.source_of(part.module)
    if source is None:
        raise ConfigError(f"{run.path}: the source of {part.name} is not to be found")
    metadata = {
        "component": part.name,
        "config": to_dict(part.config),
        "learner": config["learner"],
        **({} if part.hyperparams is None else {"hyperparams": to_dict(part.hyperparams)}),
    }
    return _Rule(
        part.slot.name,
        f"{part.name} for {config['learner']}",
        part.name,
        to_dict(part.config),
        meta_params,
        metadata,
        source,
        part.slot.hook(part.module, "CAPTIONS") or (),
    )


def _evidence_of(run: RunDirectory, config: dict[str, Any]) -> dict[str, Any]:
    if is_quick(config):
        raise ConfigError(f"{run.path} was a quick look (--quick), which is no evidence")
    if not os.path.lexists(run.evaluation_path):
        raise ConfigError(
            f"{run.path} has no held-out evidence ({run.evaluation_path.name}): let it end, with "
            "evaluation.seeds above 0"
        )
    found = files.read_json(run.evaluation_path)
    content: dict[str, Any] = schema.check(_Evidence, found, str(run.evaluation_path))
    return content


def _origin(run: RunDirectory, saved: dict[str, Any], evidence: dict[str, Any]) -> dict[str, Any]:
    """Say how it was evolved."""
    config, where = saved["config"], saved["environment"]
    git = where.get("git") or {"commit": "unknown", "dirty": False}
    seeds = [each["seed"] for each in evidence.get("evolutions", [])] or [config["run"]["seed"]]
    sections = ("role", "channel", "component", "strategy", "evolution")
    return {
        "command": _command(where["command_line"]),
        "commit": git["commit"][:9] + "+" * git["dirty"],
        "date": str(where["started"])[:10],
        "jax": where.get("jax"),
        "seeds": seeds,
        "frames": evidence["evolution_frames"] * len(seeds),
        "config": {key: config[key] for key in (*sections, *SECTIONS) if key in config},
    }


def _command(line: str) -> str:
    """Return the command of a run without what names places on its machine."""
    words = shlex.split(line)
    names = [i for i, word in enumerate(words) if Path(word).name == "metaevo"]
    words = ["metaevo", *words[names[0] + 1 :]] if names else ["python", *words[1:]]
    for flag in ("--run-dir", "--cache-dir"):
        if flag in words:
            at = words.index(flag)
            del words[at : at + 2]
    return shlex.join(words)


def _held_out(config: Mapping[str, Any], evidence: dict[str, Any]) -> dict[str, Any]:
    """Return what the card shows of the comparison on held-out seeds."""
    env = config["task"]["env"]
    return {
        "env": f"{env}, fitness of an {config['role']}" if "role" in config else env,
        "frames_per_agent": evidence["frames_per_agent"],
        "conclusion": evidence["conclusion"],
        "against_best": evidence["against_best"],
        "variants": [{key: row[key] for key in KEPT} for row in evidence["variants"]],
        "evolutions": evidence.get("evolutions", []),
        "together": evidence.get("together"),
    }


def _repeat(config: Mapping[str, Any], evidence: dict[str, Any], slot: str) -> dict[str, Any]:
    """Return the number that anybody can repeat: what was found, untuned."""
    functions = {row["name"]: row["function"] for row in evidence["variants"]}
    learned = functions.get(evidence["learned"])
    rows = [
        row
        for row in evidence["variants"]
        if row["function"] == learned and not row["tuning_frames"]
    ]
    if not rows or not isinstance(config["task"]["env"], str):
        raise ConfigError("the evidence has no untuned scores on a single environment")
    scores = np.ravel(rows[0]["scores"])
    if config.get("role") == "adversary":
        scores = -scores  # whose fitness is minus that of the agents
    references = {each: SLOTS[each].names(config["learner"])[0]
                  for each in filling.slots_of(config["learner"])}  # fmt: skip
    others = {key: config.get(key, first) for key, first in references.items() if key != slot}
    sections = {key: config[key] for key in SECTIONS}
    own = {key: value for key, value in config["hyperparams"].items() if key != "component"}
    return {
        "experiment": {**sections, "hyperparams": own, "functions": others},
        "seeds": len(scores),
        "mean": float(scores.mean()),
        "std": float(scores.std(ddof=1)),
    }


def _picture(path: Path) -> bytes | None:
    """Return a figure of a run, small: a few colours, at most 800 pixels wide."""
    if not path.is_file():
        return None
    with Image.open(path) as image:
        small = image.convert("RGB")
    small.thumbnail((WIDTH, WIDTH))
    content = io.BytesIO()
    small.quantize(COLORS).save(content, "PNG", optimize=True)
    return content.getvalue()
