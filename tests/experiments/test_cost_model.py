"""The arithmetic of the suite `scaling`."""

import pytest

from experiments.benchmarks import cost_model


def test_a_line_is_found_and_never_starts_below_zero():
    offset, slope = cost_model.fit([(x, 3 + 0.5 * x) for x in (1, 10, 1000)])
    assert offset == pytest.approx(3)
    assert slope == pytest.approx(0.5)
    assert cost_model.fit([(1, 0.5), (10, 8), (100, 90)])[0] == 0.0


def test_what_is_gathered_is_read_from_the_program():
    hlo = """
    %all-gather = f32[2,4,3]{2,1,0} all-gather(f32[1,4,3]{2,1,0} %x), channel_id=1
    %both = (f32[2,5]{1,0}, pred[2,5]{1,0}) all-gather(f32[1,5] %y, pred[1,5] %z), channel_id=2
    ROOT %other = f32[7]{0} add(f32[7]{0} %a, f32[7]{0} %b)
    """
    assert cost_model.gathered_bytes(hlo) == 4 * 24 + 4 * 10 + 10


def test_parts_of_a_modelled_generation():
    alone = cost_model.gpu_generation(1000, 1, 100, 50)
    assert alone["gather"] == 0
    assert alone["training"] == pytest.approx(1000 * 500_000 / 3.1e6)
    many = cost_model.gpu_generation(1000, 64, 100, 50)
    assert many["training"] == pytest.approx(16 * 500_000 / 3.1e6)  # ceil(1000 / 64) agents each
    assert many["outer"] == alone["outer"] == pytest.approx(50 * 1000 * 100 / 696e9)
    assert many["gather"] > 6 * 50e-6
