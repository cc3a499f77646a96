"""The zoo: discovered or published rules that can be loaded by name.

`metaevo.load("zoo:NAME")`, and `--make_optimizer zoo:NAME` in any training, sweep or evolution.
"""

from metaevo.components.zoo.entries import (
    CARD,
    FOLDER,
    FORMAT,
    NAME,
    PREFIX,
    Entry,
    Experiment,
    Meeting,
    Repeat,
    RepeatOnTasks,
    find,
    is_name,
    is_same,
    names,
    seal,
)

__all__ = [
    "CARD",
    "FOLDER",
    "FORMAT",
    "NAME",
    "PREFIX",
    "Entry",
    "Experiment",
    "Meeting",
    "Repeat",
    "RepeatOnTasks",
    "find",
    "is_name",
    "is_same",
    "names",
    "seal",
]
