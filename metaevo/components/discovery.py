"""What a run has found, on disk and back: `value_loss, meta_params = metaevo.load(run_dir)`."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from metaevo.components import COMPONENTS
from metaevo.config import ConfigError, from_dict, to_dict
from metaevo.runs.checkpoint import CheckpointError, load_tree, save_tree
from metaevo.runs.run_directory import RunDirectory


def save(run: RunDirectory, component: str, config: Any, meta_params: Any, generation: int) -> None:
    """Write the discovered component into the run directory."""
    metadata = {"component": component, "config": to_dict(config), "generation": generation}
    save_tree(run.meta_params, jax.device_get(meta_params), metadata)


def load(run_dir: str | Path, *, slot: str | None = None) -> tuple[Callable[..., jax.Array], Any]:
    """Return `(slot_function, meta_params)` of a run, ready for a learner.

    Examples:
        >>> value_loss, meta_params = metaevo.load("runs/evolve_value_loss/my_run")
        >>> train = ppo.make_train(ppo.Config(), env, value_loss=value_loss)
        >>> result = train(key, ppo.Hyperparams(), meta_params, env_params)

    Raises:
        ConfigError: if the directory holds no discovered component, or a damaged one, or one for
            another slot than `slot`.
    """
    path = RunDirectory(Path(run_dir)).meta_params
    if not os.path.isdir(path):
        raise ConfigError(f"{run_dir} holds no discovered component (no {path.name}/ in it)")
    meta_params, metadata = load_tree(path)
    if not isinstance(metadata, dict):
        raise CheckpointError(f"{path}: says nothing of its component")
    name = metadata.get("component")
    if not isinstance(name, str) or name not in COMPONENTS:
        raise CheckpointError(f"{path}: unknown component {name!r}; known: {list(COMPONENTS)}")
    module = COMPONENTS[name]
    if slot not in (None, module.SLOT):
        raise ConfigError(f"{run_dir} holds a component for the slot {module.SLOT}, not {slot}")
    component = module.make(from_dict(module.Config, metadata.get("config", {})))
    meta_params = jax.tree.map(jnp.asarray, meta_params)
    expected = jax.eval_shape(component.init, jax.random.key(0))
    if _shapes(meta_params) != _shapes(expected):
        raise CheckpointError(f"{path}: its parameters do not fit its component's settings")
    return component.apply, meta_params


def _shapes(tree: Any) -> Any:
    """Structure, shapes and dtypes (a Python number in `init` makes a type weak: no difference)."""
    return jax.tree.map(lambda leaf: (leaf.shape, str(leaf.dtype)), tree)
