"""Numbers as text: digits, decimals that a column shares, signs, missing values."""

import numpy as np
import pytest

from metaevo.reports import numbers


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "-"),
        (True, "yes"),
        (np.int64(1234567), "1,234,567"),
        (478.1234, "478.1"),
        (np.float32(0.69), "0.690"),
        (9999.6, "10,000"),
        (-0.0, "0"),
        (float("nan"), "nan"),
        ((1.5, 22.25), "[1.500, 22.25]"),
        ("text", "text"),
    ],
)
def test_cell(value, expected):
    assert numbers.cell(value) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((0.123, 0.1, 0.15), "+0.123 [+0.100, +0.150]"),
        ((-12345.6, -20000, 3000), "-12,346 [-20,000, +3,000]"),
        ((-0.01, -5.0, 4.0), "0.0 [-5.0, +4.0]"),
    ],
)
def test_an_estimate_has_the_decimals_that_its_interval_supports(values, expected):
    assert numbers.estimate(*values, sign=True) == expected


def test_an_unknown_interval_shows_the_value_alone():
    assert numbers.estimate(1.5, None, None) == "1.500"
    assert numbers.estimate(None, None, None) == "-"
    assert numbers.interval(None, 2.0) == "-"
    assert numbers.interval(106, 110.8) == "[106.0, 110.8]"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([177.72, -0.03, None], ["177.720", "-0.030", "-"]),
        ([500.0, 1e-7], ["500.0", "1e-07"]),
        ([float("inf"), 1.0], ["inf", "1.000"]),
        ([(106.0, 110.8), [99.5, 101.25]], ["[106.0, 110.8]", "[99.5, 101.2]"]),
        (["a", 2.0], ["a", "2.000"]),
    ],
)
def test_a_column_shares_its_decimals(values, expected):
    assert numbers.cells(values) == expected
