"""Signatures and docstrings in Markdown, read from the source by griffe."""

import functools
from pathlib import Path
from typing import Any

import griffe

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 90


def describe(name: str, members: list[str], *, heading: bool = True) -> str:
    """Return the description of a public function, class or module.

    Args:
        name: with its package, such as `metaevo.evolve`.
        members: that are described as well; by default a class's public methods, and everything
            public in a module.
        heading: whether the name is a heading, with a signature below it.
    """
    found = _object(name)
    parts = [f"### `{name}`", _signature(name, found)] if heading else []
    parts.append(_docstring(found))
    for member in members or (_members(found) if heading or found.is_module else []):
        each, short = found.all_members[member], f"{name.rpartition('.')[2]}.{member}"
        parts += [f"#### `{short}`", _signature(short, each), _docstring(each)]
    return "\n\n".join(part for part in parts if part)


@functools.cache
def _package(name: str) -> Any:
    return griffe.load(name, search_paths=[ROOT], docstring_parser="google")


def _object(name: str) -> Any:
    package, _, rest = name.partition(".")
    found = _package(package)[rest]
    return found.final_target if found.is_alias else found


def _members(found: Any) -> list[str]:
    """Return the names of the described members, in the order of the source."""
    return [
        name
        for name, member in found.members.items()
        if member.is_public
        and not member.is_alias
        and member.docstring
        and (found.is_module or member.is_function or "property" in member.labels)
    ]


def _signature(name: str, found: Any) -> str:
    """Return a block of code, on several lines if it is long."""
    if not (found.is_function or found.is_class):
        return ""
    words, keyword_only = [], False
    for each in found.parameters:
        if each.name in ("self", "cls"):
            continue
        kind = each.kind.value
        keyword_only |= kind == "variadic positional"
        if kind == "keyword-only" and not keyword_only:
            words.append("*")
            keyword_only = True
        star = {"variadic positional": "*", "variadic keyword": "**"}.get(kind, "")
        word = star + each.name + (f": {each.annotation}" if each.annotation else "")
        if each.default is not None and not star:
            word += f" = {each.default}" if each.annotation else f"={each.default}"
        words.append(word)
    result = f" -> {found.returns}" if found.is_function and found.returns else ""
    line = f"{name}({', '.join(words)}){result}"
    if len(line) > WIDTH:
        line = "\n".join([f"{name}(", *(f"    {word}," for word in words), f"){result}"])
    return f"```text\n{line}\n```"


def _docstring(found: Any) -> str:
    """Return the sections of a docstring, and the fields of a class that have one of their own."""
    parts = []
    for section in found.docstring.parse("google") if found.docstring else []:
        kind, value = section.kind.value, section.value
        if kind == "text":
            parts.append(value)
        elif kind == "examples":
            code = "\n\n".join(text for _, text in value)
            parts.append(f"```pycon\n{code}\n```")
        elif kind in ("parameters", "attributes"):
            parts.append("\n".join(f"- `{each.name}`: {_flat(each.description)}" for each in value))
        elif kind in ("returns", "yields"):
            parts.append(f"Returns {' '.join(_flat(each.description) for each in value)}")
        elif kind == "raises":
            parts += [f"Raises `{each.annotation}`: {_flat(each.description)}" for each in value]
        elif kind == "admonition":
            parts.append(f"{section.title}: {value.description}")
        else:
            raise ValueError(f"{found.path}: a section {kind} in its docstring")
    fields = [
        f"- `{name}`: {_flat(member.docstring.value)}"
        for name, member in (found.members.items() if found.is_class else ())
        if member.is_attribute and member.docstring and "property" not in member.labels
    ]
    return "\n\n".join([*parts, "\n".join(fields)]).strip()


def _flat(text: str) -> str:
    return " ".join(text.split())
