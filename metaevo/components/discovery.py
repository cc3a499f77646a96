"""Save and load discovered components: `value_loss, meta_params = metaevo.load(run_dir)`.

Code in a run's directory is not executed. A component from outside of this package is one that the
user names or passes (`code`), with the digest that the run has recorded. An entry of the package's
zoo brings the source that it was made with, which is a part of the package.
"""

import argparse
import functools
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp

from metaevo.components import channels, learners, players, published, registry, zoo
from metaevo.components.copies import SOURCES as SOURCES
from metaevo.components.parts import Evolved, Part, in_file, names_of
from metaevo.components.slots import failure
from metaevo.config import ConfigError, files, from_dict, merge, show, to_dict
from metaevo.config.code import other_code, require_named
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.runs.checkpoint import CheckpointError, load_tree, save_tree
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.schema import SavedConfig
from purerl.custom import is_custom
from purerl.learners import HAND_WRITTEN
from purerl.types import MetaParams, PyTree

OTHERS = channels, players
"""Components that can be evolved and loaded in addition to the parts of a learner."""


def save(
    run: RunDirectory,
    evolved: Evolved,
    meta_params: MetaParams,
    generation: int,
    learner: str | None = None,
    seen: PlainMapping | None = None,
) -> None:
    """Write the discovered parts, and how they were evolved, to the run directory.

    `seen` has the section `task` or `tasks` of the evolution's settings, as plain data.
    """
    described = {
        name: {"component": part.source, "config": to_dict(part.config)}
        | ({} if part.hyperparams is None else {"hyperparams": to_dict(part.hyperparams)})
        for name, part in evolved.parts.items()
    }
    metadata: PlainDict = {"components": described}
    if not evolved.is_dict:
        (metadata,) = described.values()
    if learner is not None:
        metadata["learner"] = learner
    metadata |= seen or {}
    save_tree(run.meta_params, jax.device_get(meta_params), {**metadata, "generation": generation})


def load(
    run_dir: str | Path,
    *,
    slot: str | None = None,
    code: Any = (),
    learner: str | None = None,
) -> Any:
    """Return `(slot_function, meta_params)` of a run, ready for a learner.

    A run of `metaevo.evolve(problem)` fills no slot: its meta-parameters are returned alone.

    Examples:
        >>> value_loss, meta_params = metaevo.load("runs/evolve_value_loss/my_run")
        >>> train = ppo.make_train(ppo.Config(), env, value_loss=value_loss)
        >>> result = train(key, ppo.Hyperparams(), meta_params, env_params)

    Args:
        run_dir: of an evolution; of several, the best run on its validation seeds, which is printed
            to stderr. Or `zoo:NAME`, an entry of the zoo; or a file of published weights
            (`metaevo.components.published`); or a component's file, which is executed and has the
            meta-parameters that its `init` draws. Of cheap talk, a channel
            for `purerl.envs.talking.Talking`; of opponent shaping, a meta-policy for
            `purerl.games`.
        slot: that the function is to fill; needed if several parts were evolved.
        code: files, modules or classes of the components, if they are not metaevo's. They must be
            unchanged; the directory's copies (`component/NAME.py`) may be named too.
        learner: name of the learner that will use the function. An optimizer must not have been
            evolved with inputs that this learner does not provide.

    Raises:
        ConfigError: if the directory holds no discovered component, or a damaged one, or one for
            another slot than `slot`, or a component from outside metaevo that is not named or has
            changed, or a component that `learner` cannot use.
    """
    if not isinstance(run_dir, str | Path):
        raise ConfigError(f"run_dir = {show(run_dir)}: must be a path or zoo:NAME")
    use(code)
    run, entry = _opened(run_dir)
    if entry is not None and slot not in (None, entry.card["slot"]):
        raise ConfigError(f"{entry.name} fills {entry.card['slot']}, not {slot}")
    if entry is not None and entry.function is not None:
        return HAND_WRITTEN[entry.card["slot"]][entry.function], None
    other = other_of(run.path)
    if other is not None and slot in (None, other.SETTING):
        return other.function(str(run_dir))
    about = _about(run)
    fills_none = isinstance(about, dict) and not {"component", "components"} & about.keys()
    if slot is None and fills_none and "generation" in about:
        return jax.tree.map(jnp.asarray, load_tree(run.meta_params)[0])
    evolved, meta_params = load_all(run_dir)
    parts = {part.slot.name: part for part in evolved.parts.values()}
    if slot is None and len(parts) == 1:
        (slot,) = parts
    if slot not in parts:
        has = " and ".join(parts)
        wanted = "say which slot" if slot is None else f"not for slot = {slot!r}"
        raise ConfigError(f"{run_dir} holds parts for {has}: {wanted}")
    part = parts[slot]
    reads: frozenset[str] = getattr(part.module, "TOLD", frozenset())
    before = published.LEARNER if about is None else about.get("learner")  # None in older files
    if learner is not None and reads and isinstance(before, str):
        missing = sorted(reads & learners.find(before).told - learners.find(learner).told)
        if missing:
            raise ConfigError(
                f"{part.name} reads what learner = {learner!r} does not tell it: "
                f"{', '.join(missing)}"
            )
    return part.function, evolved.of(meta_params, part.name)


def load_all(run_dir: str | Path) -> tuple[Evolved, Any]:
    """Return all parts of a run, and the meta-parameters as it has evolved them.

    Raises:
        ConfigError: as `load` does.
    """
    if published.is_file_name(run_dir):
        return published.load(run_dir)
    if str(run_dir).endswith(".py"):
        return in_file(str(run_dir))
    run, entry = _opened(run_dir)
    if entry is not None and entry.function is not None:
        raise ConfigError(f"{entry.name} is the hand-written {entry.function}: nothing evolved it")
    path = run.meta_params
    if not os.path.isdir(path):
        raise ConfigError(f"{run_dir} holds no discovered component (no {path.name}/ in it)")
    meta_params, metadata = load_tree(path)
    is_dict = isinstance(metadata, dict) and "components" in metadata
    described = metadata["components"] if is_dict else {"": metadata}
    valid = isinstance(described, dict) and described
    if not valid or not all(isinstance(each, dict) for each in described.values()):
        raise CheckpointError(f"{path}: does not name its components")
    parts = [_part(run, each, entry) for each in described.values()]
    evolved = Evolved({part.name: part for part in parts}, is_dict)
    if isinstance(seed := metadata.get("evolution_seed"), int):
        text = f"{run_dir}: of its evolutions that of seed {seed}, the best on validation seeds"
        print(text, file=sys.stderr)
    meta_params = jax.tree.map(jnp.asarray, meta_params)
    if _shapes(meta_params) != _shapes(jax.eval_shape(evolved.init, jax.random.key(0))):
        raise CheckpointError(f"{path}: its parameters do not fit its component's settings")
    return evolved, meta_params


def _opened(run_dir: str | Path) -> tuple[RunDirectory, zoo.Entry | None]:
    """Return a run, or the folder of an entry of the zoo and the entry."""
    entry = zoo.find(str(run_dir)) if zoo.is_name(run_dir) else None
    return RunDirectory(Path(run_dir) if entry is None else entry.path), entry


def _about(run: RunDirectory) -> Any:
    """Return the metadata of saved meta-parameters; None without them."""
    return load_tree(run.meta_params)[1] if os.path.isdir(run.meta_params) else None


def other_of(path: Path) -> ModuleType | None:
    """Return which of `OTHERS` a run, or an entry of the zoo, holds; None for parts."""
    about = _about(RunDirectory(path))
    return next((each for each in OTHERS if each.recognises(about)), None)


def is_loadable(about: Any) -> bool:
    """Whether `load` knows what to do with saved meta-parameters, from their metadata."""
    is_part = isinstance(about, dict) and "component" in about
    return is_part or any(each.recognises(about) for each in OTHERS)


@functools.cache  # one module for each entry, so that compiled programs are shared
def _pinned(source: bytes, path: Path, entry: str, name: str) -> ModuleType:
    """Return the component that an entry of the zoo was made with."""
    try:
        return registry.checked(name, registry.execute(source, path.with_suffix("")))
    except ConfigError:
        raise
    except Exception as error:
        raise failure(f"{entry} does not work with this version", error) from error


def _part(run: RunDirectory, described: PlainDict, entry: zoo.Entry | None) -> Part:
    name = described.get("component")
    if name is None:
        raise ConfigError(f"{run.path} holds no part of a learner: something else evolved there")
    if not isinstance(name, str):
        raise CheckpointError(f"{run.meta_params}: unknown component {name!r}")
    if entry is None:
        module = _module(run, name)
    else:
        module = _pinned(*entry.source(), entry.name, name)
    config = from_dict(module.Config, described.get("config", {}))
    own = None
    if hasattr(module, "Hyperparams"):
        own = from_dict(module.Hyperparams, described.get("hyperparams", {}))
    component = registry.component_of(name, module, config)
    return Part(name, module, registry.slot_of(module, config), config, component, own)


def _module(run: RunDirectory, name: str) -> ModuleType:
    """Return the module of a run's component; one from elsewhere must be imported already."""
    if not registry.is_elsewhere(name):
        return registry.find(name)
    short, recorded = registry.short_name(name), _recorded_digest(run, name)
    found = {each: registry.IMPORTED[each] for each in registry.IMPORTED
             if registry.is_elsewhere(each) and registry.short_name(each) == short}  # fmt: skip
    if name in sys.modules:  # the caller has imported it
        found.setdefault(name, registry.checked(name, sys.modules[name]))
    for each, module in found.items():
        source = registry.code_of(module)
        if source is None or recorded is None:
            if each == name:
                return module
        elif registry.digest(source) == recorded:
            return module
    copy = run.path / SOURCES / f"{short}.py"
    if not copy.is_file():
        raise ConfigError(
            f"{run.path} holds no source code of its component {show(name)}, as of a class from "
            "Python: pass it, as it was, in Python (code=...)"
        )
    if found:
        raise ConfigError(
            f"{run.path}: {next(iter(found))} has changed since the run began; name the run's "
            f"copy: --code {copy}"
        )
    raise ConfigError(
        f"{run.path} holds a component from outside metaevo that this command does not name, so "
        f"that it does not run; to run it, add --code {name} (in Python: code={name!r}), or name "
        f"the run's copy: --code {copy}"
    )


def _recorded_digest(run: RunDirectory, name: str) -> str | None:
    """Return the SHA-256 of a component's code as a run has recorded it, or of its copy."""
    short = registry.short_name(name)
    if os.path.lexists(run.config_path):
        found = (run.read_config()["resolved"].get(SOURCES) or {}).get(short)
        return found if found is None else str(found)
    copy = run.path / SOURCES / f"{short}.py"
    return registry.digest(files.read(copy)) if copy.is_file() else None


def use(code: Any) -> None:
    """Import components that the user names or passes: `--code`, in Python `code`."""
    for each in code if isinstance(code, list | tuple) else [code]:
        name = str(each) if isinstance(each, Path) else registry.name_of(each)
        if not is_custom(name):  # else settings load it
            registry.find(name)


def admit(evolve: Any, code: Sequence[str]) -> None:
    """Import the files of `--code`, also under the names in `evolve` if they have moved since."""
    use(code)
    names = {} if evolve is None else names_of(evolve)
    for file in code:
        name = names.get(registry.short_name(file))
        if name is not None and registry.is_elsewhere(name):
            registry.IMPORTED.setdefault(name, registry.find(file))


def take_settings(
    run: RunDirectory, content: SavedConfig, overrides: PlainDict, code: Sequence[str]
) -> None:
    """Raise unless the user names all code in a run's settings, which are used with `overrides`.

    Raises:
        ConfigError: with what to type, or if code has changed since the run began.
    """
    settings = merge(content["config"], overrides)
    admit(settings.get("evolve"), code)
    given = [overrides, list(code)]
    require_named(run.path, settings, content["resolved"], given, registry.IMPORTED)


def add_flag(parser: argparse.ArgumentParser) -> None:
    """Add the flag that names code."""
    parser.add_argument(
        "--code",
        action="append",
        default=[],
        metavar="FILE",
        help="code that a run directory names and that may run: my_loss.py, my_env.py:Corridor",
    )


def sources_of(evolved: Evolved) -> dict[str, bytes]:
    """Return the source code of all parts with a file, by their short names."""
    found = {name: registry.source_of(part.module) for name, part in evolved.parts.items()}
    return {name: source for name, source in found.items() if source is not None}


def digests_of(evolved: Evolved) -> dict[str, str]:
    """Return the SHA-256 of the source code of all parts, classes too, by their short names."""
    found = {name: registry.code_of(part.module) for name, part in evolved.parts.items()}
    return {name: registry.digest(source) for name, source in found.items() if source is not None}


def keep_sources(run: RunDirectory, evolved: Evolved, began_with: Mapping[str, str] | None) -> None:
    """Write the source code of all parts into a run's directory.

    `began_with` has the digests when the run began; None if they were not recorded.

    Raises:
        ConfigError: naming the code that has changed since.
    """
    if began_with is None:
        return
    now = digests_of(evolved)  # of classes, too, whose sources are not stored
    if changed := [name for name in now if began_with.get(name, now[name]) != now[name]]:
        raise other_code(changed, f" (as it was: {run.path / SOURCES})")
    registry.write_sources(run.path / SOURCES, sources_of(evolved))


def _shapes(tree: PyTree) -> Any:
    """Structure, shapes and dtypes (a Python number in `init` makes a type weak: no difference)."""
    return jax.tree.map(lambda leaf: (leaf.shape, str(leaf.dtype)), tree)
