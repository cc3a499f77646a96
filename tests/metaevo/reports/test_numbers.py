"""Numbers as text: digits, decimals that a column shares, signs, missing values."""

import pytest

from metaevo.reports import numbers


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
