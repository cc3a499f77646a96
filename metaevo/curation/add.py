"""An entry of the zoo made from a run of evolution, with the evidence that the run left."""

import io
import os
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from annotated_types import Len
from PIL import Image

from metaevo import zoo
from metaevo.components import discovery, registry
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
    scores: Annotated[list[Number], Len(2)]
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
    evolved, meta_params = discovery.load_all(run_dir, trust_source=trust_source)
    if evolved.is_dict:
        raise ConfigError(f"{run_dir} evolved several parts together; an entry holds one")
    (part,) = evolved.parts.values()
    source = registry.source_of(part.module)
    if source is None:
        raise ConfigError(f"{run_dir}: the source of {part.name} is not to be found")
    version = 1 + (zoo.find(name).card["version"] if name in zoo.names() else 0)
    config = saved["config"]
    card = {
        "name": name,
        "version": version,
        "title": title or f"{part.name} for {config['learner']}",
        "slot": part.slot.name,
        "learner": config["learner"],
        "function": None,
        "component": part.name,
        "settings": to_dict(part.config),
        "origin": _origin(run, saved, evidence),
        "held_out": _held_out(config, evidence),
        "repeat": _repeat(config, evidence, part.slot.name),
    }
    metadata = {
        "component": part.name,
        "config": to_dict(part.config),
        "learner": config["learner"],
        **({} if part.hyperparams is None else {"hyperparams": to_dict(part.hyperparams)}),
    }
    try:
        with tempfile.TemporaryDirectory(dir=zoo.FOLDER) as folder:
            new = Path(folder) / name
            checkpoint.save_tree(new / "meta_params", meta_params, metadata)
            (new / "component").mkdir()
            files.write_atomic(new / "component" / f"{part.name}.py.txt", source)
            names = part.slot.hook(part.module, "CAPTIONS") or ()
            picture = next(filter(None, (_picture(run.figures / name) for name in names)), None)
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
    sections = ("component", "strategy", "evolution")
    return {
        "command": _command(where["command_line"]),
        "commit": git["commit"][:9] + "+" * git["dirty"],
        "date": str(where["started"])[:10],
        "jax": where.get("jax"),
        "seeds": seeds,
        "frames": evidence["evolution_frames"] * len(seeds),
        "config": {key: config[key] for key in (*sections, *SECTIONS)},
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
    return {
        "env": config["task"]["env"],
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
    scores = np.asarray(rows[0]["scores"])
    others = {
        key: config[key]
        for key in ("value_loss", "policy_loss", "make_optimizer", "schedule", "update_rule")
        if key in config and key != slot
    }
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
