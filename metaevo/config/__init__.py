"""Settings and files: errors, YAML, validation, the command line."""

from metaevo.config.errors import (
    ConfigError,
    DeviceError,
    DiskError,
    exit_on_config_error,
    failure,
    show,
)
from metaevo.config.validation import (
    changed_keys,
    flatten,
    from_dict,
    merge,
    to_dict,
)
from metaevo.config.yaml_files import (
    dump_yaml,
    load_yaml,
    parse_yaml,
)

__all__ = [
    "ConfigError",
    "DeviceError",
    "DiskError",
    "changed_keys",
    "dump_yaml",
    "exit_on_config_error",
    "failure",
    "flatten",
    "from_dict",
    "load_yaml",
    "merge",
    "parse_yaml",
    "show",
    "to_dict",
]
