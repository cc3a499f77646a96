"""A rule as their modules: `loss.py`, `optim.py` and `targets.py` of the domain OnPolicyRL.

Formulas and programs become text, parts with arrays their own source (`source.py`) and a file
`MODULE.npz`. Settings of purerl that their config lacks keep their defaults.
"""

import ast
import dataclasses
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

import metaevo
from experiments.discogen import formulas, glue
from experiments.discogen.source import Source
from purerl import ppo
from purerl.parts import optimizers

MODULES = {
    "loss": ("policy_loss", "value_loss"),
    "optim": ("make_optimizer",),
    "targets": ("targets",),
}
"""Slots of ours by their modules."""
MAKE = {
    "loss": glue.loss_actor_and_critic,
    "optim": glue.make_optimizer,
    "targets": glue.get_targets,
}
"""What makes their functions of a rule, by their modules."""
IMPORTS = """from functools import partial
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax"""
ARRAYS = """with np.load(Path(__file__).resolve().with_suffix(".npz")) as _file:
    ARRAYS = {name: jnp.asarray(each) for name, each in _file.items()}"""
DEFAULTS = {"value_loss": "clipped_squared"}
"""What their PPO has in our slots, if not the first function."""
Rule = dict[str, tuple[Callable[..., Any], Any]]
"""Functions with their meta-parameters, by slot."""
HYPERPARAMS = {
    "clip_epsilon": "config['CLIP_EPS']",
    "value_clip_epsilon": "config['CLIP_EPS']",
    "gamma": "config['GAMMA']",
    "gae_lambda": "config['GAE_LAMBDA']",
    "max_grad_norm": "config['MAX_GRAD_NORM']",
    "entropy_coef": "config['ENT_COEF']",
    "vf_coef": "config['VF_COEF']",
    "learning_rate": "1.0",
    "final_learning_rate": "0.0 if config.get('SCHEDULE_LR', True) else 1.0",
}
"""In their terms. An optimizer's steps are in learning rates: their schedule multiplies them."""
SHARED = {"hyperparams", "progress", "num_updates", "frames", "replace"}
GIVEN = {"epoch", "minibatch", "num_epochs", "num_minibatches"}
RATES = {"learning_rate", "final_learning_rate"}
"""What a context has in all modules; in `optim` only; and of its hyperparams, in `optim` only."""


def read(reference: str, code: Sequence[str] = ()) -> Rule:
    """Return a rule: the name of a hand-written function, a run, `zoo:NAME`, or a part's file.

    `code` are files that a run names, and that may run.

    Raises:
        ConfigError: if there is none, or it fills a slot that their modules do not have.
    """
    rule: Rule = {}
    for slot in ppo.LEARNER.slots:
        if reference in slot.functions:
            rule = {slot.name: (slot.functions[reference], None)}
    if not (rule or reference.startswith("zoo:") or Path(reference.split(":")[0]).exists()):
        names = [name for slot in ppo.LEARNER.slots for name in slot.functions]
        raise metaevo.ConfigError(
            f"{reference}: must be a run's directory, zoo:NAME, FILE.py:PART, {', '.join(names)}"
        )
    rule = rule or metaevo.load_parts(reference, code=code)
    for name in rule:
        if not any(name in slots for slots in MODULES.values()):
            known = ", ".join(f"{module} ({' and '.join(of)})" for module, of in MODULES.items())
            raise metaevo.ConfigError(f"{reference} fills {name}: their modules are {known}")
    return rule


def export(
    reference: str, folder: Path, modules: Sequence[str] = (), code: Sequence[str] = ()
) -> list[Path]:
    """Write a rule's modules to a new folder; without names, those that it fills.

    Raises:
        ConfigError: as `read`; if the folder exists, or the rule fills a module that is not named.
    """
    rule = read(reference, code)
    fills = [name for name, slots in MODULES.items() if not rule.keys().isdisjoint(slots)]
    if missing := set(fills) - set(modules or fills):
        raise metaevo.ConfigError(f"--modules: must have {min(missing)}, which {reference} fills")
    texts = {name: text(name, rule, reference) for name in modules or fills}
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise metaevo.ConfigError(f"--to {folder}: must be new ({error.strerror})") from None
    for name, (content, arrays) in texts.items():
        (folder / f"{name}.py").write_text(content)
        if arrays:
            np.savez(folder / f"{name}.npz", **arrays)
    return sorted(folder.iterdir())


def text(module: str, rule: Rule, reference: str) -> tuple[str, dict[str, Any]]:
    """Return the text of a module, and the arrays that belong in the file next to it.

    Raises:
        ConfigError: if the rule has no source, or reads what the module is not given.
    """
    source, rows, arrays = Source(), list[str](), dict[str, Any]()
    for slot in MODULES[module]:
        known = next(each for each in ppo.LEARNER.slots if each.name == slot).functions
        default = known[DEFAULTS.get(slot) or next(iter(known))]
        function, params = rule.get(slot, (default, None))
        if isinstance(part := getattr(function, "__self__", None), formulas.Written):
            name, params = formulas.add(source, part, params), None
        else:
            name = _function(source, function)
        leaves, tree = jax.tree.flatten_with_path(params)
        places = [f"{slot}{jax.tree_util.keystr(path)}" for path, _ in leaves]
        arrays |= {place: np.asarray(leaf) for place, (_, leaf) in zip(places, leaves, strict=True)}
        params = jax.tree.unflatten(tree, [_Code(f"ARRAYS[{place!r}]") for place in places])
        rows.append(f"    {slot!r}: partial({name}, {params!r}),\n")
    made = f"{MAKE[module].__name__} = {source.function(MAKE[module])}(RULE, settings_of)\n"
    title = f'"""{reference} of metaevo as the module {module} of DiscoGen\'s OnPolicyRL."""'
    given = [ARRAYS] if arrays else []
    body, settings = source.text, _settings(source.text, module, reference)
    parts = f"{title}\n\n{IMPORTS}", body, *given, settings, f"RULE = {{\n{''.join(rows)}}}\n{made}"
    return "\n\n\n".join(parts), arrays


class _Code(str):
    """An expression in containers that `repr` writes."""

    __repr__ = str.__str__


def _function(source: Source, function: Callable[..., Any]) -> str:
    """Copy the function of a slot; return it as an expression."""
    part = getattr(function, "__self__", None)
    if isinstance(part, metaevo.parts.HandWritten):
        function, part = part.function, None
    if part is not None:
        arguments = list(inspect.signature(type(part).apply).parameters)
        if arguments[2:3] != ["context"]:  # by which `_settings` knows it
            wanted = f"apply: must be (self, meta_params, context, ...), not {tuple(arguments)}"
            raise metaevo.ConfigError(f"{type(part).__name__}.{wanted}")
        return f"{source.part(part)}.apply"
    name = source.function(function)
    if function is not optimizers.schedule_free_adam:
        return name
    return f"{source.function(glue.by_moves)}({name})"


def _settings(body: str, module: str, reference: str) -> str:
    """Return the function that makes the settings that definitions read.

    Raises:
        ConfigError: if they read what a context does not have in their module.
    """
    nodes = [node for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Attribute)]
    known, missing = (SHARED | GIVEN, set[str]()) if module == "optim" else (SHARED, RATES)
    for node in nodes:
        of_context = isinstance(node.value, ast.Name) and node.value.id == "context"
        if (of_context and node.attr not in known) or node.attr in missing:
            raise metaevo.ConfigError(
                f"{reference} reads {ast.unparse(node)}, which their module {module} is not given"
            )
    settings = {**dataclasses.asdict(ppo.Hyperparams()), **HYPERPARAMS}
    read = {node.attr for node in nodes}
    rows = [f"        {each!r}: {settings[each]},\n" for each in sorted(read & settings.keys())]
    return f"def settings_of(config):\n    return {{\n{''.join(rows)}    }}"
