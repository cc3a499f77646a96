"""The parts of a learner that are evolved together, as one component, and each on its own."""

import dataclasses
import functools
import types
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

import jax
from flax import struct

from metaevo.components import learners, registry
from metaevo.components.component import Component
from metaevo.components.slots import Slot
from metaevo.config import ConfigError, show
from metaevo.evolution.problem import Programs
from purerl.learners import LEARNERS
from purerl.types import Hyperparams, MetaParams, PyTree


class Part(NamedTuple):
    """A component in its slot."""

    source: str
    """the name in `evolve`, from which it is imported"""
    module: ModuleType
    slot: Slot
    config: Any
    component: Component
    hyperparams: Hyperparams = None
    """the part's own hyperparameters, if its module has `Hyperparams`"""

    @property
    def name(self) -> str:
        """The short name."""
        return registry.short_name(self.source)

    @property
    def function(self) -> Callable[..., Any]:
        """The slot function, with `hyperparams` in its context."""
        return self.bound(lambda context: self.hyperparams)

    def bound(self, own: Callable[[PyTree], PyTree]) -> Callable[..., Any]:
        """Return the slot function; `own` finds its hyperparameters in a learner's context."""
        apply = self.component.apply
        if self.hyperparams is None:
            return apply

        def of_slot(meta_params, context, *arguments):
            return apply(meta_params, context.replace(component=own(context)), *arguments)

        return of_slot


class Evolved(NamedTuple):
    """Evolved parts: one part, or several with a dict of meta-parameters by name."""

    parts: dict[str, Part]
    """by their short names"""
    is_dict: bool
    """whether meta-parameters are a dict, as they are if `evolve` is a list"""

    def init(self, key: jax.Array) -> PyTree:
        """Return meta-parameters of all parts."""
        if not self.is_dict:
            (part,) = self.parts.values()
            return part.component.init(key)
        keys = jax.random.split(key, len(self.parts))
        each = zip(self.parts.items(), keys, strict=True)
        return {name: part.component.init(key) for (name, part), key in each}

    def of(self, meta_params: MetaParams, name: str) -> PyTree:
        """Return the meta-parameters of one part."""
        return meta_params[name] if self.is_dict else meta_params

    def functions(self) -> dict[str, Callable[..., Any]]:
        """Return a function for every slot.

        It takes the meta-parameters of all parts, and a part's own hyperparameters from the
        learner's hyperparameters, which `hyperparams_class` has extended.
        """
        if not self.is_dict:
            (part,) = self.parts.values()
            return {part.slot.name: part.bound(lambda context: context.hyperparams.component)}
        return {
            part.slot.name: of_key(name, part.bound(functools.partial(_own, name)))
            for name, part in self.parts.items()
        }

    @property
    def programs(self) -> Programs | None:
        """How the meta-parameters behave, if there is one part whose module has `programs`."""
        (part, *others) = self.parts.values()
        hook = getattr(part.module, "programs", None)
        if hook is None or others or self.is_dict:
            return None
        found: Programs = hook(part.config)
        return found

    def references(self, learner: str) -> dict[str, str]:
        """Return for every slot the name of the hand-written reference."""
        slots = [part.slot for part in self.parts.values()]
        return {slot.name: slot.names(learner)[0] for slot in slots}


def _own(name: str, context: PyTree) -> PyTree:
    return getattr(context.hyperparams.component, name)


def of_key(key: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a slot function that takes its meta-parameters from a dict."""

    def of_slot(meta_params, *arguments):
        return function(meta_params[key], *arguments)

    return of_slot


def names_of(evolve: str | tuple[str, ...] | list[str]) -> dict[str, str]:
    """Return the components named by `evolve`, by short names.

    Raises:
        ConfigError: if it is empty, or two components have the same short name.
    """
    given: Any = [evolve] if isinstance(evolve, str) else evolve
    names = list(given) if isinstance(given, list | tuple) else []
    if not names or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"evolve = {show(evolve)}: must be the name of a component, or a list")
    short: dict[str, str] = {}
    for name in names:
        if short.setdefault(registry.short_name(name), name) is not name:
            raise ConfigError(f"evolve = {show(evolve)}: two are called {show(name)}")
    return short


def modules_of(
    evolve: str | tuple[str, ...] | list[str], learner: str, configs: Any = None
) -> tuple[dict[str, ModuleType], frozenset[str]]:
    """Return the modules that `evolve` names, by short names, and the slots that they fill.

    `configs` is the user's section `component`, if any.

    Raises:
        ConfigError: if a part cannot be imported, fits no slot of the learner, or fills the same
            slot as another part.
    """
    modules: dict[str, ModuleType] = {}
    taken: dict[str, str] = {}
    slots = learners.find(learner).slots
    for short, name in names_of(evolve).items():
        where = f"evolve = {show(evolve)}"
        modules[short] = module = registry.find(name)
        own = configs
        if not isinstance(evolve, str) and isinstance(configs, dict):
            own = configs.get(short)
        slot = registry.slot_of(module, own).name
        if slot not in slots:
            able = ", ".join(each for each, entry in LEARNERS.items() if slot in entry.slots)
            own_slots = f"only {', '.join(slots)}" if slots else "and no other"
            raise ConfigError(
                f"{where}: learner = {learner!r} has no slot {slot!r} for {short}, "
                f"{own_slots}; learners that have it: {able}"
            )
        if slot in taken:
            raise ConfigError(
                f"{where}: {taken[slot]} and {short} both fill the slot {slot}; evolve one of them"
            )
        taken[slot] = short
    return modules, frozenset(taken)


def hyperparams_class(learner: type, evolve: Any, modules: Mapping[str, ModuleType]) -> type:
    """Return the hyperparams of a learner, with the evolved parts' hyperparams as `component`.

    If `evolve` names several parts, each has its own by its short name.
    """
    own = {name: each.Hyperparams for name, each in modules.items() if hasattr(each, "Hyperparams")}
    if not own:
        return learner
    if isinstance(evolve, str):
        (component,) = own.values()
    else:
        component = _struct(struct.PyTreeNode, tuple(own.items()))
    return _struct(learner, (("component", component),))


@functools.cache  # the same settings, read twice, are of the same class
def _struct(base: type, sections: tuple[tuple[str, type], ...]) -> type:
    namespace = {name: dataclasses.field(default_factory=each) for name, each in sections}
    members = {"__annotations__": dict(sections), "__module__": __name__, **namespace}
    return types.new_class("Hyperparams", (base,), {}, lambda body: body.update(members))


def in_file(path: str) -> tuple[Evolved, PyTree]:
    """Return the component in a file, with default settings, and the meta-parameters it draws."""
    module = registry.find(path)
    (part,) = make(path, module.Config()).parts.values()
    if hasattr(module, "Hyperparams"):
        part = part._replace(hyperparams=module.Hyperparams())
    return Evolved({part.name: part}, False), part.component.init(jax.random.key(0))


def make(evolve: str | tuple[str, ...], configs: Any, hyperparams: Hyperparams = None) -> Evolved:
    """Make the parts named by `evolve`.

    Args:
        evolve: the setting.
        configs: the section `component`: of a single part, or a mapping by short names.
        hyperparams: of the learner, of the class that `hyperparams_class` returns.
    """
    all_own = getattr(hyperparams, "component", None)
    is_dict = not isinstance(evolve, str)
    parts = {}
    for short, name in names_of(evolve).items():
        module = registry.find(name)
        config = configs
        if is_dict:
            config = configs[short] if isinstance(configs, Mapping) else getattr(configs, short)
        component = registry.component_of(name, module, config)
        own = getattr(all_own, short, None) if is_dict else all_own
        slot = registry.slot_of(module, config)
        parts[short] = Part(name, module, slot, config, component, own)
    return Evolved(parts, is_dict)
