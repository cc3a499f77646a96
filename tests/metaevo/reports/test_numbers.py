"""Estimates as text."""

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
