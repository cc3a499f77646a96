"""Dataclasses of settings: their fields, and sections that depend on other settings."""

import ast
import copy
import dataclasses
import functools
import inspect
import itertools
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, cast, get_type_hints

from metaevo.config.plain import PlainMapping

T = TypeVar("T")


class Setting(NamedTuple):
    """A setting, or a section of settings."""

    key: str
    """dotted, from the root"""
    owner: Any
    """the dataclass with the field"""
    kind: Any
    """the annotation; of a section its dataclass"""
    default: Any
    """or dataclasses.MISSING"""


def settings_of(
    cls: type[Any], prefix: str = "", default: Any = dataclasses.MISSING
) -> Iterator[Setting]:
    """Yield the settings and sections of a dataclass; those of a section follow it."""
    kinds = get_type_hints(cls, include_extras=True)
    for field in dataclasses.fields(cls):
        if field.init:
            key, kind = prefix + field.name, kinds[field.name]
            value = getattr(default, field.name) if isinstance(default, cls) else default_of(field)
            yield Setting(key, cls, kind, value)
            if dataclasses.is_dataclass(kind):
                yield from settings_of(cast(Any, kind), f"{key}.", value)


def default_of(field: "dataclasses.Field[Any]") -> Any:
    """Return the default of a dataclass field, or dataclasses.MISSING."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def specialised(
    base: type[T],
    sections: Mapping[str, type],
    values: PlainMapping,
    texts: Mapping[str, str] | None = None,
    *,
    order: Sequence[str] = (),
) -> type[T]:
    """Return a subclass of a settings dataclass with the actual types of its sections.

    Code is written, and checked by mypy, for the base; validation and `--help` see the subclass.

    Args:
        base: the settings, frozen and with `kw_only`.
        sections: the classes of the sections that the base leaves open.
        values: new defaults of other settings; a setting that the base lacks is text.
        texts: documentation of the new settings.
        order: the names that come first, if they are not the first ones of the base.
    """
    kinds = {each.name: each.type for each in dataclasses.fields(base)}  # type: ignore[arg-type]
    fields: list[tuple[str, Any, Any]] = [
        (name, kind, dataclasses.field(default_factory=kind)) for name, kind in sections.items()
    ]
    for name, value in values.items():
        metadata = {"doc": (texts or {}).get(name, "")}
        field: Any = dataclasses.field(default=value, metadata=metadata)
        fields.append((name, kinds.get(name, str), field))
    return _extended(base, fields, order)


def _extended(
    base: type[T], fields: Sequence[tuple[str, Any, Any]], order: Sequence[str]
) -> type[T]:
    first = [(name, Any) for name in order]
    # The fields of the last base come first.
    bases = base, dataclasses.make_dataclass("Order", first, frozen=True, kw_only=True)
    made: type[T] = dataclasses.make_dataclass(
        base.__name__, fields, bases=bases, frozen=True, kw_only=True
    )
    return made


def without(made: Any, names: Collection[str], base: type[T]) -> type[T]:
    """Return a subclass of `base`, preceded by the fields of another dataclass except `names`."""
    kinds, texts = get_type_hints(made, include_extras=True), documentation(made)
    fields = []
    for each in dataclasses.fields(made):
        if each.name not in names:
            field: Any = copy.copy(each)
            field.metadata = {"doc": texts.get(each.name, "")}
            fields.append((each.name, kinds[each.name], field))
    return _extended(base, fields, [name for name, *_ in fields])


@functools.lru_cache(maxsize=64)
def documentation(cls: Any) -> dict[str, str]:
    """Return the string literals under the fields, also of base classes."""
    texts: dict[str, str] = {}
    for each in reversed(cls.__mro__[:-1]):
        try:
            body = ast.parse(textwrap.dedent(inspect.getsource(each))).body[0].body  # type: ignore[attr-defined]
        except (OSError, TypeError, SyntaxError):
            continue
        for field, text in itertools.pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                match text:
                    case ast.Expr(value=ast.Constant(value=str(words))):
                        texts[field.target.id] = " ".join(words.split())
    given = {each.name: each.metadata.get("doc") for each in dataclasses.fields(cls)}
    return texts | {name: text for name, text in given.items() if text}
