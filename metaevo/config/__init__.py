"""Settings and files: errors, YAML, validation, the command line."""

from metaevo.config.errors import ConfigError, DeviceError, DiskError, exit_on_config_error, show
from metaevo.config.validation import (
    changed_keys,
    default_of,
    describe,
    flatten,
    from_dict,
    merge,
    to_dict,
)
from metaevo.config.yaml_files import (
    MAX_BYTES,
    MAX_DEPTH,
    dump_yaml,
    load_yaml,
    mapping_of,
    parse_json,
    parse_yaml,
)

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "ConfigError",
    "DeviceError",
    "DiskError",
    "changed_keys",
    "default_of",
    "describe",
    "dump_yaml",
    "exit_on_config_error",
    "flatten",
    "from_dict",
    "load_yaml",
    "mapping_of",
    "merge",
    "parse_json",
    "parse_yaml",
    "show",
    "to_dict",
]
