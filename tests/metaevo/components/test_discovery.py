"""Components saved by a run and loaded again; forged files are refused."""

import dataclasses
import shutil
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import metaevo
from metaevo.components import Component, discovery, filling, parts, registry, seen, value_loss
from metaevo.components.registry import IMPORTED
from metaevo.config import ConfigError, to_dict
from metaevo.runs.checkpoint import load_tree, save_tree
from metaevo.runs.run_directory import RunDirectory
from metaevo.studies.learner import LearnerStudy
from metaevo.studies.settings import make_experiment
from purerl import envs, ppo
from tests.metaevo.evolving import settings_of
from tests.metaevo.toy import TINY, assert_same

CONFIG = value_loss.Config(hidden_sizes=(3,), inputs=("error", "target"), even=True)


@pytest.fixture
def run(tmp_path):
    run = RunDirectory.create(tmp_path / "run", "test")
    meta_params = value_loss.make(CONFIG).init(jax.random.key(0))
    discovery.save(run, parts.make("value_loss", CONFIG), meta_params, 7)
    return run


def test_round_trip(run):
    slot_function, meta_params = discovery.load(run.path)
    component = value_loss.make(CONFIG)
    assert_same(meta_params, component.init(jax.random.key(0)))
    arguments = meta_params, None, 1.0, 0.25, 0.5
    assert slot_function(*arguments) == component.apply(*arguments)
    assert load_tree(run.meta_params)[1]["generation"] == 7


@pytest.mark.long
@pytest.mark.smoke
def test_the_line_in_the_readme_trains_ppo(run):
    value_loss, meta_params = metaevo.load(str(run.path))
    env, env_params = envs.make("CartPole-v1")
    train = jax.jit(ppo.make_train(TINY, env, value_loss=value_loss))
    result = train(jax.random.key(0), ppo.Hyperparams(), meta_params, env_params)
    assert np.isfinite(result.metrics["value_loss"]).all()


@dataclasses.dataclass(frozen=True)
class Nothing:
    """Settings of a component that has none."""


def scaled(loss_shape=()):
    """A component of a user's own, whose parameters come from Python numbers."""

    def value_loss(meta_params, context, prediction, target, old_prediction):
        return jnp.broadcast_to(meta_params["scale"], loss_shape) * (prediction - target) ** 2

    def make(config):
        return Component(lambda key: {"scale": jnp.asarray(0.5)}, value_loss)

    return SimpleNamespace(SLOT="value_loss", Config=Nothing, make=make)


def test_parameters_made_of_python_numbers_come_back(tmp_path, monkeypatch):
    monkeypatch.setitem(IMPORTED, "scaled", scaled())
    run = RunDirectory.create(tmp_path / "run", "test")
    evolved = parts.make("scaled", Nothing())
    discovery.save(run, evolved, evolved.init(jax.random.key(0)), 1)
    value_loss, loaded = discovery.load(run.path)
    assert value_loss(loaded, None, 3.0, 1.0, 0.0) == 2.0
    monkeypatch.setitem(IMPORTED, "scaled", scaled((3,)))
    with pytest.raises(ConfigError, match=r"scaled must return a scalar"):
        LearnerStudy(settings_of({}, "scaled")).check()


def init(key):
    return jnp.float32(1.0)


def squared(scale, context, prediction, target, old_prediction):
    return scale * context.hyperparams.vf_coef * (prediction - target) ** 2


def adam(scale, context):
    return optax.adam(scale * context.hyperparams.learning_rate)


@pytest.mark.parametrize(
    ("slot", "component", "complaint"),
    [
        ("value_loss", Component(init, squared), None),
        ("make_optimizer", Component(init, adam), None),
        ("value_loss", Component(init, lambda scale, context, error: scale), "TypeError"),
        ("policy_loss", Component(init, lambda *arguments: arguments[1].clip), "AttributeError"),
        ("make_optimizer", Component(init, lambda scale, context: scale), "fails"),
        ("value_loss", Component(lambda key: {}, lambda *arguments: arguments[2]), "no parameters"),
        ("value_loss", Component(lambda: None, squared), "TypeError"),
        ("value_loss", (init, squared), r"make returns \(.*metaevo\.Component"),
        ("value_loss", AttributeError("missing"), "make.* fails: .*missing"),
        ("schedule", Component(init, lambda scale, context: {"learning_rate": scale}),
         "must return the hyperparams that it is"),
    ],
)  # fmt: skip
def test_invalid_components_are_refused_in_one_line(slot, component, complaint, monkeypatch):
    def make(config):
        if isinstance(component, Exception):
            raise component
        return component

    monkeypatch.setitem(IMPORTED, "mine", SimpleNamespace(SLOT=slot, Config=Nothing, make=make))
    settings = settings_of({}, "mine")
    if complaint is None:
        assert make_experiment(settings).evolved.parts["mine"].component is component
    else:
        with pytest.raises(ConfigError, match=f"^evolve = 'mine': .*{complaint}") as caught:
            make_experiment(settings)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"component": "drift"},
        {"component": ["value_loss"]},
        {"config": to_dict(CONFIG) | {"hidden_sizes": [4]}},
        {"config": to_dict(CONFIG) | {"layers": 3}},
        {"config": 5},
    ],
)
def test_metadata_that_does_not_fit_is_refused(run, changes):
    tree, metadata = load_tree(run.meta_params)
    save_tree(run.meta_params, tree, metadata | changes)
    with pytest.raises(ConfigError):
        discovery.load(run.path)


def test_other_shapes_and_types_are_refused(run):
    tree, metadata = load_tree(run.meta_params)
    assert metadata["config"] == to_dict(CONFIG)
    for other in (
        tuple(tree),
        tree[:-1],
        [tree[0], {**tree[1], "more": tree[1]["bias"]}],
        jax.tree.map(lambda leaf: leaf.astype(np.float16), tree),
        jax.tree.map(lambda leaf: leaf[None], tree),
    ):
        save_tree(run.meta_params, other, metadata)
        with pytest.raises(ConfigError, match="do not fit"):
            discovery.load(run.path)
    save_tree(run.meta_params, tree, metadata)
    discovery.load(run.path)


def test_loading_a_run_without_a_component_fails(tmp_path):
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(ConfigError, match="holds no discovered component"):
            discovery.load(path)
    with pytest.raises(ConfigError, match="run_dir = 3"):
        metaevo.load(3)


@pytest.mark.parametrize("about", [{"envs": [["x"]]}, {"envs": [1]}, {"tasks": {"a": {"env": 3}}}])
def test_seen_tasks_of_damaged_metadata_are_refused(tmp_path, about):
    save_tree(tmp_path / "meta_params", {"a": jnp.zeros(1)}, about)
    with pytest.raises(ConfigError, match="damaged"):
        seen.by_rule(tmp_path)


def test_one_seen_environment_may_be_text(tmp_path):
    save_tree(tmp_path / "meta_params", {"a": jnp.zeros(1)}, {"envs": "CartPole-v1"})
    assert seen.environments(seen.by_rule(tmp_path)) == ("CartPole-v1",)


def test_a_file_fills_its_slot_with_what_its_init_returns_and_is_copied(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "IMPORTED", {})
    file, run = tmp_path / "mine.py", tmp_path / "run"
    shutil.copy(Path(__file__).parents[3] / "examples" / "scheduled_adam.py", file)
    slot, drawn = "make_optimizer", {"start": jnp.zeros(()), "end": jnp.zeros(())}
    assert_same(filling.fill(slot, str(file), "ppo")[1], drawn)
    with pytest.raises(ConfigError, match=slot):
        filling.fill("value_loss", str(file), "ppo")
    assert filling.seen_by(slot, str(file)) == []
    filling.keep(run, slot, str(file))
    registry.IMPORTED.clear()
    assert_same(filling.fill(slot, str(file), "ppo", run)[1], drawn)
    file.write_text(file.read_text() + "\n# changed\n")
    registry.IMPORTED.clear()
    with pytest.raises(ConfigError, match="has changed since the run began; name the run's copy"):
        filling.fill(slot, str(file), "ppo", run)
