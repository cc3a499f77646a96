"""Settings: errors, YAML, validation and the command line."""

from metaevo.config.validation import (
    JSON_DEPTH,
    MAX_DEPTH,
    ConfigError,
    changed_keys,
    default_of,
    describe,
    dump_yaml,
    exit_on_config_error,
    flatten,
    from_dict,
    load_yaml,
    merge,
    parse_json,
    parse_yaml,
    show,
    to_dict,
)

__all__ = [
    "JSON_DEPTH",
    "MAX_DEPTH",
    "ConfigError",
    "changed_keys",
    "default_of",
    "describe",
    "dump_yaml",
    "exit_on_config_error",
    "flatten",
    "from_dict",
    "load_yaml",
    "merge",
    "parse_json",
    "parse_yaml",
    "show",
    "to_dict",
]
