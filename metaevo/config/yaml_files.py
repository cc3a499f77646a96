"""Reads and writes YAML and JSON; a file cannot execute code."""

import re
from pathlib import Path
from typing import Any

import yaml
from pydantic_core import from_json

from metaevo.config.errors import ConfigError, show
from metaevo.config.plain import PlainDict

# The plain scalars of YAML 1.2 and their first characters. PyYAML speaks 1.1, in which 1e-3 is
# text, `off` is false and 1:30 is ninety.
_SCALARS = {
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "int": (r"[-+]?[0-9]{1,100}|0o[0-7]{1,100}|0x[0-9a-fA-F]{1,100}", "-+0123456789"),
    "float": (
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+0123456789.",
    ),
    "null": (r"~|null|Null|NULL|", "~nN\0"),
}


MAX_BYTES = 2**20
"""size limit of a YAML file"""
MAX_DEPTH = 50
"""maximum nesting depth in YAML, and maximum number of parts of a dotted key"""


class _Loader(yaml.SafeLoader):
    """YAML 1.2 scalars; no duplicate keys, no tags, no aliases (they expand without bound)."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        for name in ("anchor", "tag"):
            if (value := getattr(event, name, None)) is not None:
                problem = f"anchors, aliases and tags are not supported: {value!r}"
                raise yaml.composer.ComposerError(None, None, problem, event.start_mark)
        if self.depth > MAX_DEPTH:
            problem = f"nested more than {MAX_DEPTH} levels deep"
            raise yaml.composer.ComposerError(None, None, problem, event.start_mark)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            text = isinstance(key, str)
            if not text or key in seen:
                problem = f"duplicate key {key!r}" if text else f"key {key!r} must be text"
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)

    def construct_yaml_int(self, node: Any) -> int:
        text = self.construct_scalar(node)
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)

    def construct_scalar(self, node: Any) -> Any:
        text = super().construct_scalar(node)
        text.encode()  # raises ValueError for an escaped half of a character
        return text


class _Dumper(yaml.SafeDumper):
    """Quotes text that YAML 1.1 or 1.2 would read as another type."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_text(self, data: str) -> Any:
        """Escape Unicode line ends, which YAML would fold into spaces.

        Bytes of a name that the locale could not decode become UTF-8 again.
        """
        data = data.encode(errors="surrogateescape").decode(errors="replace")
        style = '"' if set(data) & set("\x85\u2028\u2029") else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Loader.yaml_implicit_resolvers = {}  # drops the resolvers of YAML 1.1
_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
_Dumper.add_representer(str, _Dumper.represent_text)
for _name, (_pattern, _first) in _SCALARS.items():
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(
            f"tag:yaml.org,2002:{_name}",
            re.compile(f"^(?:{_pattern})$"),
            ["" if character == "\0" else character for character in _first],
        )


def parse_yaml(text: str, source: str) -> Any:
    """Return the plain data of a YAML text."""
    try:
        loader = _Loader(text)  # a safe one
        node = loader.get_single_node()
        return None if node is None else loader.construct_document(node)
    except ConfigError:
        raise
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
        raise ConfigError(f"{source}{where}: not valid YAML: {problem}") from None
    except ValueError as error:  # an escape that is no character
        raise ConfigError(f"{source}: not valid YAML: {error}") from None


def parse_json(text: str | bytes) -> Any:
    """Return the data of a JSON text.

    Raises:
        ValueError: if it is not JSON, or is nested more than 200 levels deep.
    """
    return from_json(text, cache_strings="keys")  # three times as fast as json.loads


def load_yaml(path: str | Path) -> PlainDict:
    """Return the mapping in a YAML file; an empty file is an empty mapping.

    Raises:
        ConfigError: if the file cannot be read, is not UTF-8 or YAML, or has a key twice.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{path}: cannot be read: {reason}") from None
    return mapping_of(content, path)


def mapping_of(content: bytes, path: str | Path) -> PlainDict:
    """Return the mapping in the content of a YAML file, as `load_yaml` does."""
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{path}: larger than {MAX_BYTES} bytes, the limit for a config")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8 text") from None
    data = parse_yaml(text, str(path))
    if data is not None and not isinstance(data, dict):
        raise ConfigError(f"{path}: must be a mapping of keys to values, not {show(data)}")
    return data or {}


def dump_yaml(data: Any, flow: bool = False) -> str:
    """Return plain data as YAML, in one line if `flow`."""
    width = 2**30 if flow else 100
    return yaml.dump(
        data,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=width,
        default_flow_style=flow,
    )
