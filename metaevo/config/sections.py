"""Settings some of whose sections depend on what the others name, such as a learner's."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

LATER = "later"
"""In the metadata of a setting's field: whether runs of earlier versions may lack it."""


def specialised(
    base: type[T],
    sections: Mapping[str, type],
    values: Mapping[str, Any],
    texts: Mapping[str, str] | None = None,
    *,
    later: Collection[str] = (),
    order: Sequence[str] = (),
) -> type[T]:
    """Return a subclass of a dataclass of settings in which everything has its real type.

    Code is written, and checked by mypy, for the base; validation and `--help` see the subclass.

    Args:
        base: the settings, frozen and with `kw_only`.
        sections: the classes of the sections that the base leaves open.
        values: new defaults of settings beside the sections; those that the base lacks are text.
        texts: the documentation of the latter.
        later: those that runs of earlier versions may lack.
        order: the names that come first, if they are not the first ones of the base.
    """
    kinds = {each.name: each.type for each in dataclasses.fields(base)}  # type: ignore[arg-type]
    fields: list[tuple[str, Any, Any]] = [
        (name, kind, dataclasses.field(default_factory=kind)) for name, kind in sections.items()
    ]
    for name, value in values.items():
        metadata = {"doc": (texts or {}).get(name, ""), LATER: name in later}
        field: Any = dataclasses.field(default=value, metadata=metadata)
        fields.append((name, kinds.get(name, str), field))
    bases: tuple[type, ...] = (base,)
    if order:  # the fields of the last base come first
        first = [(name, Any) for name in order]
        bases += (dataclasses.make_dataclass("Order", first, frozen=True, kw_only=True),)
    made: type[T] = dataclasses.make_dataclass(
        base.__name__, fields, bases=bases, frozen=True, kw_only=True
    )
    return made
