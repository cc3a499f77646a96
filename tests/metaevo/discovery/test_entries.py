import shutil

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import metaevo
from metaevo.__main__ import main
from metaevo.config import ConfigError, from_dict
from metaevo.parts import learners, records, resolve, zoo
from metaevo.training.settings import make_task, training_class
from purerl.lpg import PREDICTION_SIZE, Trajectory
from purerl.parts import losses, optimizers
from purerl.types import Context

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
    make_task(from_dict(training_class(raw), raw))


OUTPUTS = {
    "dpo": 106.866420, "lpg-tasks": 100.480078, "ppo-apa": 65.397462, "ppo-drift": 125.321711,
    "ppo-momenta": 0.113316436, "ppo-optimizer": 0.135522549, "q-learning-loss": 874.602819,
}  # fmt: skip
"""Sums of the sizes of the outputs at `inputs`, recorded with the sources of the first edition."""


def outputs(name):
    """The outputs of an entry on a fixed batch: values and slopes, steps, or targets."""
    rng = np.random.default_rng(0)
    sizes = {"value_loss": (3, 3, 3), "policy_loss": (0.5, 1)}
    scalars = {key: [np.float32(rng.normal(0, size, 64)) for size in each]
               for key, each in sizes.items()}  # fmt: skip
    torso = {"Dense_0": {"kernel": np.float32(rng.normal(0, 0.3, (4, 8))), "bias": np.zeros(8)}}
    heads = [{"kernel": np.float32(rng.normal(0, 0.3, (8, size)))} for size in (2, 1)]
    params = {"actor_torso": torso, "policy_head": heads[0], "value_head": heads[1]}
    params = jax.tree.map(jnp.float32, {"params": params})
    gradients = [jax.tree.map(lambda x: np.float32(rng.normal(0, 0.1, x.shape)), params)
                 for _ in range(5)]  # fmt: skip
    shape = 6, 3
    reward, ended, cut = rng.normal(size=shape), rng.random(shape) < 0.2, rng.random(shape) < 0.1
    log_prob = -np.abs(rng.normal(size=shape))
    predictions = rng.normal(size=(2, *shape, PREDICTION_SIZE))
    numbers = map(np.float32, (reward, log_prob, *predictions))
    reward, log_prob, *predictions = numbers
    rollout = Trajectory(reward, ended, cut, log_prob, *predictions)

    slot = zoo.find(name).card["slot"]
    function, meta_params = metaevo.load(f"zoo:{name}")
    hyperparams = learners.find(zoo.find(name).card["learner"]).hyperparams()

    def context(progress):
        return Context(hyperparams, progress, num_updates=100)

    def loss(progress, first, *others):
        here = context(progress)
        return jax.value_and_grad(lambda x: function(meta_params, here, x, *others))(first)

    def steps():
        moved, state, found = params, None, []
        for index, gradient in enumerate(gradients):
            here = context(index / 5)
            optimizer = function(meta_params, here)
            state = optimizer.init(moved) if state is None else state
            updates, state = optimizer.update(gradient, state, moved, context=here)
            moved = optax.apply_updates(moved, updates)
            found.append(updates)
        return found

    if slot in scalars:
        return jax.vmap(loss)(jnp.linspace(0, 1, 64), *scalars[slot])
    if slot == "make_optimizer":
        return jax.jit(steps)()
    return function(meta_params, context(0.5), rollout)


@pytest.mark.parametrize("name", OUTPUTS)
def test_an_entry_computes_what_it_did(name):
    sizes = [np.abs(np.asarray(each, np.float64)).sum() for each in jax.tree.leaves(outputs(name))]
    assert sum(sizes) == pytest.approx(OUTPUTS[name], rel=1e-4)


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A zoo of a test's own: a copy of the package's, which may be damaged."""
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
    assert not records.copy_of(tmp_path, "policy_loss").exists()  # a function of the package
    shutil.rmtree(own / "ppo-optimizer")
    after = resolve.fill(slot, name, tmp_path).meta_params
    jax.tree.map(np.testing.assert_array_equal, before, after)
    assert resolve.seen_by(records.copy_of(tmp_path, slot.name))[0].env == "CartPole-v1"
