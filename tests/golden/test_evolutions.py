import json

import numpy as np
import pytest

from tests.golden import evolutions, evolving

RECORDED = json.loads(evolutions.FILE.read_text())
MAY_DIFFER = 0.25
"""Share of a case's numbers that may be others on another platform. Most are returns, which do not
depend on rounding, until it turns an action around."""


def numbers(results, path=()):
    """All numbers by their paths, without those of what was found, which accumulate rounding."""
    if not isinstance(results, dict | list):
        return {path: np.nan if results is None else results}
    entries = results.items() if isinstance(results, dict) else enumerate(results)
    nested = (numbers(each, (*path, name)) for name, each in entries if name != "found")
    return {key: value for each in nested for key, value in each.items()}


def test_every_case_is_recorded():
    cases = [(kind, name) for kind in evolutions.KINDS for name in RECORDED[kind]]
    assert cases == evolutions.CASES


@pytest.mark.parametrize(("kind", "name"), evolutions.CASES)
def test_a_case_has_the_recorded_results(kind, name):
    recorded, measured = RECORDED[kind][name], evolutions.measure(kind, name)
    if RECORDED["platform"] == evolutions.platform():
        assert measured == recorded
    before, now = numbers(recorded), numbers(measured)
    assert before.keys() == now.keys()
    others = {
        path: (before[path], value)
        for path, value in now.items()
        if value != pytest.approx(before[path], rel=1e-2, abs=1e-3, nan_ok=True)
    }
    assert len(others) <= MAY_DIFFER * len(now), others


def test_a_training_run_resumes_bit_for_bit(tmp_path):
    case = evolutions.TRAININGS["PPO"]
    found = evolutions.evolved(*evolving.train_in_pieces(case, tmp_path / "run", kills=[2]))
    assert found == evolutions.measure("training", "PPO")
