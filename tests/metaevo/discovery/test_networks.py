"""Smaller networks: which there are, and that they are fitted to what was recorded."""

import jax
import numpy as np
import pytest

from metaevo.components import find, registry
from metaevo.components.parts import Part
from metaevo.discovery import networks, targets
from metaevo.discovery.networks import fitted, smaller
from metaevo.discovery.records import Records, values
from metaevo.discovery.targets import TARGETS
from purerl.types import Context


def part_of(name, **settings):
    module = find(name)
    config = module.Config(**settings)
    return Part(name, module, registry.slot_of(module, config), config, module.make(config))


def numbers(part):
    return sum(leaf.size for leaf in jax.tree.leaves(part.component.init(jax.random.key(0))))


def test_networks_are_smaller_than_the_learned_part():
    by_units = smaller(part_of("value_loss", hidden_sizes=(8, 8), start="squared"))
    assert list(by_units) == [2, 4]
    assert [each.config.hidden_sizes for each in by_units.values()] == [(2,), (4,)]
    assert {each.config.start for each in by_units.values()} == {"random"}
    assert [numbers(each) for each in by_units.values()] == [7, 13]
    assert [numbers(each) for each in smaller(part_of("drift")).values()] == [18, 36]
    assert list(smaller(part_of("value_loss", hidden_sizes=(3,)))) == [2]


@pytest.mark.long
def test_the_slope_is_fitted(monkeypatch):
    monkeypatch.setattr(networks, "STEPS", 2_000)
    monkeypatch.setattr(networks, "STARTS", 2)
    rng = np.random.default_rng(0)
    prediction, target = rng.normal(size=(2, 2000)).astype(np.float32)
    wanted = np.tanh(2 * (prediction - target)) + 0.3
    scalars = np.stack([prediction, target, prediction], axis=1)
    contexts = jax.tree.map(lambda _: np.zeros(2000, np.float32), Context(0.0, 0.0, 0.0, 0.0))
    records = Records(scalars, contexts, wanted)
    small = smaller(part_of("value_loss"))[4]
    found = fitted(small, 4, TARGETS["value_loss"], records, seed=0)
    assert found.numbers == 13
    assert found.error < 0.01
    own = values(targets.slope_of(small), found.meta_params, records)
    assert np.mean(np.square(own - wanted)) / np.var(wanted) == pytest.approx(found.error, rel=0.01)
