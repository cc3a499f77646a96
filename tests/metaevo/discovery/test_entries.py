"""Every entry of the zoo: sealed, loaded, and put into its slot."""

import hashlib
import json
import shutil

import jax
import numpy as np
import pytest

import metaevo
from metaevo.__main__ import main
from metaevo.components import channels, filling, optimizer, players, registry, zoo
from metaevo.components.slots import SLOTS
from metaevo.config import ConfigError
from purerl import envs, ppo
from purerl.learners import LEARNERS
from purerl.types import Context

NAMES = zoo.names()
SMALL = 256 * 1024
"""An entry is kilobytes."""


@pytest.mark.parametrize("name", NAMES)
def test_an_entry_fills_its_slot(name):
    entry = zoo.find(f"zoo:{name}")
    card = entry.card
    function, meta_params = metaevo.load(entry.name)
    assert sum(path.stat().st_size for path in entry.path.rglob("*") if path.is_file()) < SMALL
    if card["slot"] == players.SETTING:
        policy = np.zeros(5)
        assert jax.eval_shape(function, meta_params, policy, policy).shape == policy.shape
        return
    if card["slot"] == channels.SETTING:
        task = card["repeat"]["experiment"]["task"]
        environment = task["env"], *envs.make(task["env"], **task["env_params"])
        _, _, params = channels.hear(entry.name, environment, card["learner"])
        assert params.scale == card["settings"]["scale"]
        return
    assert card["slot"] in LEARNERS[card["learner"]].slots
    hyperparams = LEARNERS[card["learner"]].hyperparams()
    SLOTS[card["slot"]].rehearse(entry.name, function, meta_params, hyperparams)


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A zoo of a test's own: a copy of the package's, which may be damaged."""
    shutil.copytree(zoo.FOLDER, tmp_path / "entries")
    monkeypatch.setattr(zoo, "FOLDER", tmp_path / "entries")
    return tmp_path / "entries"


def test_entries_are_listed_and_shown(capsys, refused):
    assert main(["zoo"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed[: len(NAMES)]] == [f"zoo:{name}" for name in NAMES]
    for name in NAMES:
        assert main(["zoo", "show", f"zoo:{name}"]) == 0
        assert zoo.find(name).card["slot"] in capsys.readouterr().out
    for line in (["show"], ["show", "ppo-optimiser"], ["list", "dpo"], ["add", "runs/x"]):
        refused(main, ["zoo", *line])


def test_an_entry_fits_its_own_slot_only():
    for name in ("dpo", "ppo-optimizer", "cartpole-adversary"):
        with pytest.raises(ConfigError, match=r"fills \w+, not value_loss"):
            filling.fill("value_loss", f"zoo:{name}", "ppo")
    with pytest.raises(ConfigError, match="holds no meta-policy"):
        players.load("zoo:dpo")


def test_changed_files_are_refused(own):
    card = own / "dpo" / "entry.json"
    card.write_text(card.read_text().replace("2022", "2021"))
    with pytest.raises(ConfigError, match=r"zoo:dpo was changed .*\(entry.json"):
        zoo.find("dpo")
    state = own / "ppo-optimizer" / "meta_params" / "state.npz"
    content = bytearray(state.read_bytes())
    content[-100] ^= 1
    state.write_bytes(content)
    with pytest.raises(ConfigError, match=r"zoo:ppo-optimizer was changed .*state.npz"):
        metaevo.load("zoo:ppo-optimizer")


NEWER = json.dumps({"format": zoo.FORMAT + 1, "what": "unknown"})


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": 1}', "\0", NEWER])
def test_a_damaged_or_newer_card_is_one_line(own, content):
    (own / "dpo" / "entry.json").write_text(content)
    with pytest.raises(ConfigError, match="update metaevo" if content == NEWER else ".") as error:
        zoo.find("dpo")
    assert "\n" not in str(error.value)


def test_the_source_of_an_entry_is_its_own(monkeypatch):
    """A component of the package that changes does not change what was found with it."""
    entry = zoo.find("ppo-optimizer")
    monkeypatch.setattr(optimizer, "make", None)
    make_optimizer, meta_params = metaevo.load(entry.name)
    source, path = entry.source()
    assert hashlib.sha256(source).hexdigest() == entry.card["files"][f"component/{path.name}"]
    assert callable(make_optimizer(meta_params, Context(ppo.Hyperparams())).update)
    assert registry.IMPORTED.get("optimizer") in (None, optimizer)


def test_a_run_keeps_a_copy_that_is_loaded_without_the_zoo(tmp_path, own):
    name = "zoo:ppo-optimizer"
    _, before = filling.fill("make_optimizer", name, "ppo")
    filling.keep(tmp_path, "make_optimizer", name)
    filling.keep(tmp_path, "policy_loss", "zoo:dpo")
    assert not filling.copy_of(tmp_path, "policy_loss").exists()  # a function of the package
    pinned, _ = filling.fill("make_optimizer", name, "ppo", tmp_path)
    assert pinned.__module__.startswith("component_optimizer_")
    shutil.rmtree(own / "ppo-optimizer")
    copied, after = filling.fill("make_optimizer", name, "ppo", tmp_path)
    assert copied.__module__ == "metaevo.components.optimizer"
    jax.tree.map(np.testing.assert_array_equal, before, after)
