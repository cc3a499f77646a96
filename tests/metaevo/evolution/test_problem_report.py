"""The report of a problem of one's own, which has no contenders, and the words of titles."""

import jax.numpy as jnp
import pytest

from metaevo.evolution.evolution import EvolutionConfig
from metaevo.evolution.problem import Evaluation
from metaevo.evolution.strategy import StrategyConfig
from metaevo.studies.api import evolve
from metaevo.studies.learner import what


class Slope:
    """Two numbers, of which one has a name that a page must not interpret."""

    def init(self, key):
        return {"<tilt>": jnp.zeros(()), "floor": jnp.zeros(1)}

    def evaluate(self, key, meta_params):
        return Evaluation(-jnp.abs(meta_params["<tilt>"] - 1.0) - meta_params["floor"][0] ** 2, {})


def test_few_numbers_are_shown_on_the_page_and_in_the_terminal(tmp_path, capsys):
    found = evolve(
        Slope(),
        strategy=StrategyConfig(population_size=8),
        evolution=EvolutionConfig(generations=2, validation_seeds=2, num_devices=1),
        run_dir=tmp_path / "run",
    )
    printed = capsys.readouterr().out
    expected = f"<tilt> = {float(found.meta_params['<tilt>']):.4g}, floor[0] = "
    assert expected in printed
    page = (tmp_path / "run" / "report.html").read_text()
    assert expected.replace("<", "&lt;").replace(">", "&gt;") in page
    assert "Evolving Slope" in page
    assert 'class="banner' not in page  # nothing was compared
    assert "metaevo.load" not in page  # it holds no component
    assert page.count("<img") == 1


@pytest.mark.parametrize(
    ("component", "slot", "expected"),
    [
        ("value_loss", "value_loss", "a value loss"),
        ("tilted", "value_loss", "tilted (a value loss)"),
        ("my_drift", "policy_loss", "my drift (a policy loss)"),
        ("vsgd", "make_optimizer", "vsgd (an optimizer)"),
        ("update_rule", "update_rule", "an update rule"),
    ],
)
def test_what_is_evolved_in_a_title(component, slot, expected):
    assert what(component, slot) == expected
