"""Numbers of a verdict as text."""

import pytest

from metaevo.reports import page


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((0.123, 0.1, 0.15), "+0.123 [+0.100, +0.150]"),
        ((35.4, 20.2, 51.9), "+35 [+20, +52]"),
        ((-12345.6, -20000, 3000), "-12,346 [-20,000, +3,000]"),
        ((2.0, 2.0, 2.0), "+2.000 [+2.000, +2.000]"),
    ],
)
def test_differences_have_the_decimals_that_their_interval_is_worth(numbers, expected):
    assert page.signed(*numbers) == expected
