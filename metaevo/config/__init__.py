"""Settings and files: errors, YAML, validation, the command line."""

from metaevo.config.checks import from_dict as from_dict
from metaevo.config.errors import ConfigError as ConfigError
from metaevo.config.errors import DeviceError as DeviceError
from metaevo.config.errors import DiskError as DiskError
from metaevo.config.errors import exit_on_config_error as exit_on_config_error
from metaevo.config.errors import failure as failure
from metaevo.config.errors import show as show
from metaevo.config.plain import changed_keys as changed_keys
from metaevo.config.plain import flatten as flatten
from metaevo.config.plain import merge as merge
from metaevo.config.plain import to_dict as to_dict
from metaevo.config.yaml_files import dump_yaml as dump_yaml
from metaevo.config.yaml_files import load_yaml as load_yaml
from metaevo.config.yaml_files import parse_yaml as parse_yaml
