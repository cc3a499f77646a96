import dataclasses
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import metaevo
from metaevo.config import ConfigError, to_dict
from metaevo.config.references import reference_of
from metaevo.parts import Part, ValueLossNetwork, records, resolve, saved
from metaevo.parts.learners import PART, part_class
from metaevo.parts.part import Parts
from metaevo.runs.checkpoint import load_tree, save_tree
from metaevo.runs.run_directory import RunDirectory
from purerl.lpg import Targets
from purerl.parts import losses, optimizers
from purerl.types import Context
from tests.metaevo.evolving import forget_code, settings_of
from tests.metaevo.toy import assert_same, drawn

CONFIG = ValueLossNetwork(hidden_sizes=(3,), inputs=("error", "target"), error_scale=2.0)


@pytest.fixture
def run(tmp_path):
    run = RunDirectory.create(tmp_path / "run", "test")
    records.write(run, Parts({CONFIG.slot: CONFIG}), CONFIG.init(jax.random.key(0)), 7)
    return run


def test_round_trip(run):
    slot_function, meta_params = saved.load(run.path)
    assert_same(meta_params, CONFIG.init(jax.random.key(0)))
    arguments = meta_params, None, 1.0, 0.25, 0.5
    assert slot_function(*arguments) == CONFIG.apply(*arguments)
    assert load_tree(run.meta_params)[1]["generation"] == 7


def part(slot, apply, init=lambda key: jnp.float32(1.0), **members):
    functions = {"init": lambda self, key: init(key), "apply": lambda self, *each: apply(*each)}
    made = type("Mine", (Part,), {"slot": slot, **functions, **members})
    return dataclasses.dataclass(frozen=True)(made)


def squared(scale, context, prediction, target, old_prediction):
    return scale * context.progress * (prediction - target) ** 2


def adam(scale, context):
    return optax.adam(scale * context.hyperparams.learning_rate)


def test_parameters_made_of_python_numbers_come_back(tmp_path):
    mine = part("value_loss", squared, lambda key: jnp.asarray(0.5))()
    records.write(RunDirectory(tmp_path), Parts({mine.slot: mine}), mine.init(None))
    value_loss, loaded = metaevo.load(tmp_path)
    assert value_loss(loaded, Context(None, 1.0), 3.0, 1.0, 0.0) == 2.0


@pytest.mark.parametrize(
    ("cls", "complaint"),
    [
        (part("value_loss", squared), None),
        (part("make_optimizer", adam), None),
        (part("value_loss", lambda scale, context, error: scale), "TypeError"),
        (part("policy_loss", lambda *arguments: arguments[1].clip), "AttributeError"),
        (part("make_optimizer", lambda scale, context: scale), "fails in an update of ppo"),
        (part("value_loss", lambda *arguments: arguments[2], lambda key: {}), "no parameters"),
        (part("value_loss", squared, init=lambda: None), "TypeError"),
        (part("value_loss", lambda *each: jnp.stack(each[2:])), r"must return a scalar, not .*3"),
        (part("schedule", lambda scale, context: {"learning_rate": scale}),
         "must return the hyperparams that it is"),
        (part("channel", squared), "no slot 'channel'"),
        (part(3, squared), "slot: must name the learner's argument"),
        (type("Bare", (Part,), {"__annotations__": {"unit": float}, "slot": "value_loss"}),
         r"decorate it with @dataclass"),
    ],
)  # fmt: skip
def test_invalid_parts_are_refused_in_one_line(cls, complaint):
    def build():
        return settings_of({"evolve": reference_of(PART, cls)}).build()

    if complaint is None:
        assert isinstance(build().parts.by_slot[cls.slot], cls)
        return
    with pytest.raises(ConfigError, match=f"^evolve = .*{complaint}") as caught:
        build()
    assert "\n" not in str(caught.value)


def test_an_update_rule_with_other_shapes_is_refused():
    cls = part("update_rule", lambda scale, context, rollout: Targets(scale, rollout.reward))
    raw = {"evolve": reference_of(PART, cls), "learner": "lpg", "task": {"env": "GridWorld"}}
    with pytest.raises(ConfigError, match=r"fails in an update of lpg: .*have the shapes \(\), "):
        settings_of(raw).build()


@pytest.mark.parametrize(
    "change",
    [
        {"part": "drift"},
        {"part": ["value_loss"]},
        {"settings": to_dict(CONFIG) | {"hidden_sizes": [4]}},
        {"settings": to_dict(CONFIG) | {"layers": 3}},
        {"settings": 5},
        tuple,
        lambda tree: tree[:-1],
        lambda tree: [tree[0], {**tree[1], "more": tree[1]["bias"]}],
        lambda tree: jax.tree.map(lambda leaf: leaf.astype(np.float16), tree),
        lambda tree: jax.tree.map(lambda leaf: leaf[None], tree),
    ],
)
def test_metadata_shapes_and_types_that_do_not_fit_are_refused(run, change):
    tree, metadata = load_tree(run.meta_params)
    assert metadata["parts"]["value_loss"]["settings"] == to_dict(CONFIG)
    if callable(change):
        tree = change(tree)
    else:
        metadata["parts"]["value_loss"] |= change
    save_tree(run.meta_params, tree, metadata)
    with pytest.raises(ConfigError, match="do not fit" if callable(change) else None):
        saved.load(run.path)


def test_loading_a_run_without_a_part_fails(tmp_path):
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(ConfigError, match="holds no evolved part"):
            saved.load(path)
    with pytest.raises(ConfigError, match="run_dir = 3"):
        metaevo.load(3)


@pytest.mark.parametrize(
    "about", [{"task": {"env": [["x"]]}}, {"tasks": {"a": {"env": 3}}}, {"tasks": [1]}]
)
def test_seen_tasks_of_damaged_metadata_are_refused(tmp_path, about):
    save_tree(tmp_path / "meta_params.npz", {"a": jnp.zeros(1)}, about)
    with pytest.raises(ConfigError, match="damaged"):
        resolve.seen_by(tmp_path)


def test_a_file_fills_its_slot_with_what_its_init_returns_and_is_copied(tmp_path, monkeypatch):
    file, run = tmp_path / "mine.py", tmp_path / "run"
    shutil.copy(Path(__file__).parents[3] / "examples" / "scheduled_adam.py", file)
    slot, drawn = optimizers.MAKE_OPTIMIZER, {"start": jnp.zeros(()), "end": jnp.zeros(())}
    assert_same(resolve.fill(slot, str(file)).meta_params, drawn)
    assert_same(resolve.fill(slot, f"{file}:ScheduledAdam").meta_params, drawn)
    with pytest.raises(ConfigError, match="make_optimizer"):
        resolve.fill(losses.VALUE_LOSS, str(file))
    assert resolve.seen_by(file) == []
    resolve.keep(run, slot, str(file))
    forget_code(monkeypatch)
    assert_same(resolve.fill(slot, str(file), run).meta_params, drawn)
    file.write_text(file.read_text() + "\n# changed\n")
    forget_code(monkeypatch)
    with pytest.raises(ConfigError, match="has changed since the run began; name the run's copy"):
        resolve.fill(slot, str(file), run)


OPEN = "experiments/published/open.py:Open"
"""needs the argument `epoch`"""


@pytest.mark.parametrize(
    ("evolve", "settings"),
    [({"evolve": OPEN}, {}), ({"evolve": "value_loss"}, {"make_optimizer": "RUN"})],
)
def test_an_optimizer_that_needs_an_argument_its_learner_lacks(evolve, settings, tmp_path):
    open_part = part_class(OPEN)()
    records.write(RunDirectory(tmp_path), Parts({open_part.slot: open_part}), drawn(open_part), 7)
    settings = {key: str(tmp_path) for key in settings}
    settings_of({**evolve, **settings, "learner": "ppo"}).build()
    where = f"evolve = '{OPEN}'" if not settings else "make_optimizer = "
    message = rf"^{where}.* fails in an update of dqn: .*context\.epoch"
    with pytest.raises(ConfigError, match=message) as caught:
        settings_of({**evolve, **settings, "learner": "dqn"}).build()
    assert "\n" not in str(caught.value)
