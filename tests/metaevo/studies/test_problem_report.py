"""The report of a custom problem."""

import jax.numpy as jnp
import pytest

from metaevo.evolution.evolution import EvolutionConfig
from metaevo.evolution.problem import Evaluation
from metaevo.evolution.strategy import StrategyConfig
from metaevo.studies.api import evolve


class Slope:
    """Two numbers, one of them with a name that a page must not interpret."""

    def init(self, key):
        return {"<tilt>": jnp.zeros(()), "floor": jnp.zeros(1)}

    def evaluate(self, key, meta_params):
        return Evaluation(-jnp.abs(meta_params["<tilt>"] - 1.0) - meta_params["floor"][0] ** 2, {})


@pytest.mark.long
def test_names_are_text_in_the_page(tmp_path):
    evolve(
        Slope(),
        strategy=StrategyConfig(population_size=8),
        evolution=EvolutionConfig(generations=2, validation_seeds=2, num_devices=1),
        run_dir=tmp_path / "run",
    )
    page = (tmp_path / "run" / "report.html").read_text()
    assert "&lt;tilt&gt; = " in page
    assert "<tilt>" not in page
