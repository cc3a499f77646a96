"""Reads and writes YAML; a file cannot execute code."""

import re
from pathlib import Path
from typing import Any

import yaml

from metaevo.config.errors import ConfigError, show
from metaevo.config.files import read
from metaevo.config.plain import PlainDict


class _Loader(yaml.SafeLoader):
    """YAML without aliases, which may be endless, and with unique keys that are text."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if self.check_event(yaml.AliasEvent):
            problem = f"aliases are not supported: *{event.anchor}"
            raise yaml.composer.ComposerError(None, None, problem, event.start_mark)
        return super().compose_node(parent, index)

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


class _Dumper(yaml.SafeDumper):
    """Writes no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


for _class in (_Loader, _Dumper):  # PyYAML takes 1e-3 for text
    _float = re.compile(r"^[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]+$")
    _class.add_implicit_resolver("tag:yaml.org,2002:float", _float, list("-+.0123456789"))


def parse_yaml(text: str, source: str) -> Any:
    """Return the plain data of a YAML text.

    Raises:
        ConfigError: if it is none; `source` names the file.
    """
    try:
        return _Loader(text).get_single_data()  # a safe one
    except Exception as error:  # it recurses, and converts dates, numbers and escapes
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or error
        raise ConfigError(f"{source}{where}: not valid YAML: {problem}") from None


def load_yaml(path: str | Path) -> PlainDict:
    """Return the mapping in a YAML file; an empty file is an empty mapping.

    Raises:
        ConfigError: if the file cannot be read, is not UTF-8 or YAML, or has a key twice.
    """
    try:
        text = read(Path(path)).decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8 text") from None
    data = parse_yaml(text, str(path))
    if data is not None and not isinstance(data, dict):
        raise ConfigError(f"{path}: must be a mapping of keys to values, not {show(data)}")
    return data or {}


def dump_yaml(data: Any, flow: bool = False) -> str:
    """Return plain data as YAML, in one line if `flow`."""
    return yaml.dump(
        data,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=2**30 if flow else 100,
        default_flow_style=flow,
    )
