"""Settings and files: errors, YAML, validation, the command line."""

from metaevo.config.checks import from_dict as from_dict
from metaevo.config.files import dump_yaml as dump_yaml
from metaevo.config.files import find_preset as find_preset
from metaevo.config.files import load_yaml as load_yaml
from metaevo.config.files import preset_names as preset_names
from metaevo.config.plain import ConfigError as ConfigError
from metaevo.config.plain import DiskError as DiskError
from metaevo.config.plain import PlainDict as PlainDict
from metaevo.config.plain import PlainMapping as PlainMapping
from metaevo.config.plain import failure as failure
from metaevo.config.plain import flatten as flatten
from metaevo.config.plain import is_name as is_name
from metaevo.config.plain import merge as merge
from metaevo.config.plain import of_value as of_value
from metaevo.config.plain import short_name as short_name
from metaevo.config.plain import show as show
from metaevo.config.plain import to_dict as to_dict
