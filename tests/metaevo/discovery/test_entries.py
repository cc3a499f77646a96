import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import metaevo
from metaevo.__main__ import main
from metaevo.config import ConfigError
from metaevo.parts import learners, resolve, zoo
from purerl.parts import losses, optimizers
from purerl.types import Context
from tests.metaevo.parts.test_formula import steps
from tests.purerl.reference import trajectory

NAMES = zoo.names()
SMALL = 256 * 1024
"""An entry is kilobytes."""


@pytest.mark.parametrize("name", NAMES)
def test_an_entry_fills_its_slot(name):
    entry = zoo.find(f"zoo:{name}")
    card = entry.card
    assert sum(path.stat().st_size for path in entry.path.rglob("*") if path.is_file()) < SMALL
    raw = {"learner": card["learner"], card["slot"]: entry.name}
    raw |= {"task": {"env": "GridWorld"}} if card["learner"] in ("q_learning", "lpg") else {}
    metaevo.read_settings("train", raw).population()


OUTPUTS = {
    "dpo": 156.273313, "lpg-tasks": 93.0430434, "ppo-apa": 93.4320557, "ppo-drift": 187.672002,
    "ppo-momenta": 14.0516869, "ppo-optimizer": 12.5068155, "q-learning-loss": 195.467783,
}  # fmt: skip
"""Sums of the sizes of `outputs`, recorded where those of the first edition still held."""


def outputs(name):
    """The outputs of an entry on fixed inputs: values and slopes, steps, or targets."""
    card, (function, meta_params) = zoo.find(name).card, metaevo.load(f"zoo:{name}")
    context = Context(learners.find(card["learner"]).hyperparams(), 0.5, num_updates=100)
    if card["slot"] == "make_optimizer":
        return steps(function, meta_params)
    if card["slot"] == "update_rule":
        return function(meta_params, context, trajectory((6, 3)))

    def loss(progress, *scalars):
        return function(meta_params, context.replace(progress=progress), *scalars)

    count = {"value_loss": 3, "policy_loss": 2}[card["slot"]]
    scalars = np.random.default_rng(0).normal(size=(count, 64)).astype(np.float32)
    return jax.vmap(jax.value_and_grad(loss, argnums=1))(jnp.linspace(0, 1, 64), *scalars)


@pytest.mark.parametrize("name", OUTPUTS)
def test_an_entry_computes_what_it_did(name):
    sizes = [np.abs(np.asarray(each, np.float64)).sum() for each in jax.tree.leaves(outputs(name))]
    assert sum(sizes) == pytest.approx(OUTPUTS[name], rel=1e-4)


@pytest.fixture
def own(tmp_path, monkeypatch):
    shutil.copytree(zoo.FOLDER, tmp_path / "entries")
    monkeypatch.setattr(zoo, "FOLDER", tmp_path / "entries")
    return tmp_path / "entries"


def test_entries_are_listed_and_shown(capsys, refused):
    assert main(["zoo"]) == 0
    listed = [line.split()[:1] for line in capsys.readouterr().out.splitlines()]
    assert [name for name in listed if name[:1] and name[0].startswith("zoo:")] == [
        [f"zoo:{name}"] for name in NAMES
    ]
    for name in NAMES:
        assert main(["zoo", "show", f"zoo:{name}"]) == 0
        assert zoo.find(name).card["slot"] in capsys.readouterr().out
    for line in (["show"], ["show", "ppo-optimiser"], ["list", "dpo"], ["add", "runs/x"]):
        refused(main, ["zoo", *line])


def test_an_entry_fits_its_own_slot_only():
    for name in ("dpo", "ppo-optimizer"):
        with pytest.raises(ConfigError, match=r"fills \w+, not value_loss"):
            resolve.fill(losses.VALUE_LOSS, f"zoo:{name}")


def test_changed_numbers_are_refused(own):
    state = own / "ppo-optimizer" / "meta_params.npz"
    content = bytearray(state.read_bytes())
    content[-100] ^= 1
    state.write_bytes(content)
    with pytest.raises(ConfigError, match="is cut off or damaged"):
        metaevo.load("zoo:ppo-optimizer")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"title": 1}', "\0"])
def test_a_damaged_card_is_one_line(own, content):
    (own / "dpo" / "entry.json").write_text(content)
    with pytest.raises(ConfigError, match=r".") as error:
        zoo.find("dpo")
    assert "\n" not in str(error.value)


def test_a_run_keeps_a_copy_that_is_loaded_without_the_zoo(tmp_path, own):
    name, slot = "zoo:ppo-optimizer", optimizers.MAKE_OPTIMIZER
    before = resolve.fill(slot, name).meta_params
    resolve.keep(tmp_path, slot, name)
    resolve.keep(tmp_path, losses.POLICY_LOSS, "zoo:dpo")
    assert not resolve.copy_of(tmp_path, "policy_loss").exists()  # a function of the package
    shutil.rmtree(own / "ppo-optimizer")
    after = resolve.fill(slot, name, tmp_path).meta_params
    jax.tree.map(np.testing.assert_array_equal, before, after)
    assert resolve.seen_by(resolve.copy_of(tmp_path, slot.name))[0].env == "CartPole-v1"
