"""Checks that devices can represent the numbers in the settings."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from metaevo.config.checks import LIMIT
from metaevo.config.errors import show
from metaevo.config.validation import flatten, to_dict

WIDER = ("run.seed",)
"""settings that are not sent to devices"""
SMALLEST, LARGEST = (float(each) for each in (np.finfo("f4").tiny, np.finfo("f4").max))
"""limits of the nonzero normal numbers in float32"""


def check_numbers(settings: object) -> None:
    """Raise if a device cannot represent a number; called by `__post_init__` of the settings.

    Raises:
        ValueError: naming the first such number.
    """
    for key, value in flatten(to_dict(settings)).items():
        for number in _numbers(value):
            where = f"{key} = {show(number)}"
            if isinstance(number, int):
                if abs(number) > LIMIT and key not in WIDER:
                    raise ValueError(f"{where}: must be at most {LIMIT} in size")
            elif number != number:
                raise ValueError(f"{where}: must be a number")
            elif number and np.isfinite(number) and not SMALLEST <= abs(number) <= LARGEST:
                raise ValueError(
                    f"{where}: must be 0 or {SMALLEST:.3g} to {LARGEST:.3g} in size (float32)"
                )


def _numbers(value: Any) -> Iterator[int | float]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _numbers(each)
    elif isinstance(value, int | float):
        yield value
