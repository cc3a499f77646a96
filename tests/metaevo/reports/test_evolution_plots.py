"""The figure of several evolutions, looked at through matplotlib's own objects."""

import numpy as np
import pytest

from metaevo.reports import evolution_plots, plots


def records(start, *, validated=True):
    return [
        {
            "kind": "generation",
            "generation": index,
            "fitness_mean": start + index,
            "fitness_of_mean": start + 10 * index if validated and index % 2 == 0 else None,
        }
        for index in range(5)
    ]


@pytest.fixture
def drawn(monkeypatch):
    """The lines of every figure that is saved."""
    found, real = [], plots._save

    def save(figure, path):
        found.append(figure.axes[0].get_lines())
        return real(figure, path)

    monkeypatch.setattr(plots, "_save", save)
    return found


def test_every_evolution_is_a_line_on_its_validation_seeds(tmp_path, drawn):
    evolutions = {f"seed {seed}": records(100.0 * seed) for seed in range(3)}
    path = tmp_path / "figures" / "fitness.png"
    evolution_plots.plot_evolutions(evolutions, path, chosen="seed 1", baseline={"squared": 7.0})
    assert path.read_bytes().startswith(b"\x89PNG")
    *lines, dashed = drawn[0]
    for seed, line in enumerate(lines):
        np.testing.assert_array_equal(line.get_xdata(), [0, 2, 4])
        np.testing.assert_array_equal(line.get_ydata(), 100.0 * seed + np.array([0, 20, 40]))
    assert dashed.get_ydata()[0] == 7.0


def test_without_validation_the_population_is_drawn(tmp_path, drawn):
    evolutions = {"seed 0": records(0.0, validated=False), "seed 1": []}
    evolution_plots.plot_evolutions(evolutions, tmp_path / "a.png", chosen="seed 0")
    np.testing.assert_array_equal(drawn[0][0].get_ydata(), np.arange(5.0))


def test_nothing_is_no_figure(tmp_path):
    with pytest.raises(ValueError, match="no generation"):
        evolution_plots.plot_evolutions({"seed 0": []}, tmp_path / "a.png", chosen="seed 0")
