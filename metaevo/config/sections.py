"""Dataclasses of settings: their fields, and subclasses with more of them."""

import ast
import copy
import dataclasses
import functools
import inspect
import itertools
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeVar, get_type_hints

T = TypeVar("T")


class Setting(NamedTuple):
    """A setting, or a section of settings."""

    key: str
    """dotted, from the root"""
    kind: Any
    """the annotation; of a section its dataclass"""
    default: Any
    """or dataclasses.MISSING"""
    text: str = ""
    """documentation"""


def section(key: str, kind: type) -> Setting:
    """Return a section whose settings have the defaults of its dataclass."""
    try:
        return Setting(key, kind, kind())
    except (TypeError, ValueError):  # a setting without a default
        return Setting(key, kind, dataclasses.MISSING)


def settings_of(
    cls: Any, prefix: str = "", default: Any = dataclasses.MISSING
) -> Iterator[Setting]:
    """Yield the settings and sections of a dataclass; those of a section follow it."""
    kinds, texts = get_type_hints(cls, include_extras=True), _documentation(cls)
    for field in dataclasses.fields(cls):
        if field.init:
            key, kind = prefix + field.name, kinds[field.name]
            value = getattr(default, field.name) if isinstance(default, cls) else default_of(field)
            yield Setting(key, kind, value, texts.get(field.name, ""))
            if dataclasses.is_dataclass(kind):
                yield from settings_of(kind, f"{key}.", value)


def default_of(field: "dataclasses.Field[Any]") -> Any:
    """Return the default of a dataclass field, or dataclasses.MISSING."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def extended(base: type[T], settings: Iterable[Setting]) -> type[T]:
    """Return a subclass of a settings dataclass with more settings, or other kinds and defaults.

    Code is written, and checked by mypy, for the base, which is frozen and has `kw_only`.
    Validation and `--help` see the subclass.
    """
    fields = []
    for key, kind, default, text in settings:
        given: Any = {"metadata": {"doc": text}}
        if default is not dataclasses.MISSING:
            given["default_factory"] = functools.partial(copy.deepcopy, default)
        if "." not in key:
            fields.append((key, kind, dataclasses.field(**given)))
    made: type[T] = dataclasses.make_dataclass(
        base.__name__, fields, bases=(base,), frozen=True, kw_only=True
    )
    return made


@functools.lru_cache(maxsize=64)
def _documentation(cls: Any) -> dict[str, str]:
    """Return the string literals under the fields, also of base classes."""
    texts: dict[str, str] = {}
    for each in reversed(cls.__mro__[:-1]):
        try:
            body = ast.parse(textwrap.dedent(inspect.getsource(each))).body[0].body  # type: ignore[attr-defined]
        except (OSError, TypeError, SyntaxError):
            continue
        for field, text in itertools.pairwise(body):
            match field, text:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(words))),
                ):
                    texts[name] = " ".join(words.split())
    given = {each.name: each.metadata.get("doc") for each in dataclasses.fields(cls)}
    return texts | {name: text for name, text in given.items() if text}
