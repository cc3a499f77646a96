import dataclasses
import sys

import jax
import jax.numpy as jnp
import pytest

import metaevo
from metaevo.config import ConfigError
from metaevo.config.references import reference_of
from metaevo.parts import Part, records
from metaevo.parts.learners import PART
from metaevo.parts.part import Parts
from metaevo.runs.run_directory import RunDirectory
from purerl.parts import losses
from tests.metaevo.evolving import settings_of


def test_other_slots_are_filled_by_name():
    settings = settings_of({"evolve": "drift", "value_loss": "huber", "make_optimizer": "sgd"})
    assert not hasattr(settings, "policy_loss")
    problem = settings.build()
    fixed = {name: each.function for name, each in problem.fixed.items()}
    context = type("Context", (), {"hyperparams": settings.hyperparams})
    arguments = context, 9.0, 1.0, 1.0
    assert fixed["value_loss"]("of others", *arguments) == losses.huber(None, *arguments)
    plain = settings_of({"evolve": "drift"}).build().fixed["value_loss"].function
    assert plain(None, *arguments) == losses.squared(None, *arguments) == 32.0
    assert problem.reference().learner.policy_loss is losses.clipped_surrogate


@dataclasses.dataclass(frozen=True)
class Loss(Part):
    slot = "value_loss"

    def init(self, key):
        return {"a": jnp.zeros(())}

    def apply(self, meta_params, *others):
        return meta_params["a"]


@pytest.fixture
def own(monkeypatch):
    monkeypatch.setattr("metaevo.config.code._GIVEN", {})
    return reference_of(PART, Loss)


def test_a_class_is_not_stored_in_a_run(own, tmp_path, monkeypatch):
    run = RunDirectory.create(tmp_path, "")
    records.write(run, Parts({Loss.slot: Loss()}), {"a": jnp.zeros(())}, 1)
    assert callable(metaevo.load(run.path)[0])
    monkeypatch.setattr("metaevo.config.code._GIVEN", {})
    monkeypatch.setitem(sys.modules, __name__, None)  # as in another process
    with pytest.raises(ConfigError, match=r"no source code .*Loss.*pass the code"):
        metaevo.load(run.path)
    assert callable(metaevo.load(run.path, code=Loss)[0])


def test_a_list_of_one_is_a_single_part():
    settings = settings_of({"evolve": ["drift"], "component": {"drift": {"hidden_size": 3}}})
    assert settings.component.drift.hidden_size == 3
    evolved = settings.build().parts
    assert set(evolved.init(jax.random.key(0))) == {"hidden", "output"}
    assert list(evolved.by_slot) == ["policy_loss"]


def test_formulas_fill_several_slots():
    """Named by slots, which their sections need not repeat."""
    evolve = {"policy_loss": "formula", "targets": "formula", "value_loss": "value_loss"}
    component = {
        "policy_loss": {"expression": "a * log_ratio - ratio * advantage", "constants": {"a": 1.0}},
        "targets": {"expression": "delta + b * next_advantage", "constants": {"b": 0.9}},
        "value_loss": {"hidden_sizes": [4]},
    }
    raw = {"learner": "ppo", "evolve": evolve, "component": component}
    problem = settings_of(raw).build()
    assert list(problem.parts.by_slot) == list(evolve)
    policy_loss, targets, value_loss = problem.parts.by_slot.values()
    assert policy_loss.text(policy_loss.init(None)) == "1.0 * log_ratio - ratio * advantage"
    assert targets.text(targets.init(None)) == "delta + 0.9 * next_advantage"
    assert value_loss.hidden_sizes == (4,)


SLOTTED = """
from dataclasses import dataclass
import jax.numpy as jnp
import metaevo

@dataclass(frozen=True)
class Slotted(metaevo.Part):
    slot: str = "value_loss"

    def init(self, key):
        return jnp.zeros(())

    def apply(self, meta_params, context, *arguments):
        return meta_params * arguments[0]
"""


def test_an_own_part_of_any_slot_is_in_its_slot(tmp_path, monkeypatch):
    """By its slot, and a formula in a list has the defaults of its class."""
    (tmp_path / "slotted.py").write_text(SLOTTED)
    monkeypatch.chdir(tmp_path)
    (part,) = settings_of({"evolve": {"policy_loss": "slotted.py"}}).build().parts.by_slot.values()
    assert part.slot == "policy_loss"
    own = {"slot": "policy_loss", "expression": "-c0 * ratio * advantage"}
    settings_of({"evolve": ["formula"], "component": {"formula": own}}).build()
