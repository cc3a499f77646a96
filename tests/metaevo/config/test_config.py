import contextlib
import math
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import annotated_types
import flax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from metaevo.config import ConfigError, dump_yaml, from_dict, load_yaml, merge, to_dict
from metaevo.config.checks import Setting, extended, section


@flax.struct.dataclass
class Hyperparams:
    learning_rate: Annotated[float, annotated_types.Gt(0)] = 3e-4
    """Step size of the optimizer,
    before any schedule."""

    gamma: Annotated[float, annotated_types.Interval(ge=0, le=1)] = 0.99
    offset: float = 0.0


@dataclass(frozen=True)
class Schedule:
    every: int = 10
    """Updates between two points; 100% documented."""


@dataclass(frozen=True)
class Train(Schedule):
    num_envs: Annotated[int, annotated_types.Ge(1)] = 4
    num_minibatches: int = 2
    hidden_sizes: tuple[Annotated[int, annotated_types.Ge(1)], ...] = (64, 64)
    """Width of every hidden layer."""
    activation: Literal["tanh", "relu"] = "tanh"
    anneal: bool = False
    limit: Annotated[float, annotated_types.Gt(0)] | None = None

    def __post_init__(self) -> None:
        if self.num_envs % self.num_minibatches:
            raise ValueError("num_envs must be divisible by num_minibatches")


@dataclass(frozen=True)
class Config:
    learner: str = "ppo"
    hyperparams: Hyperparams = field(default_factory=Hyperparams)
    train: Train = Train(num_envs=8, hidden_sizes=(32,))
    env: dict[str, Any] = field(default_factory=dict)
    pair: tuple[int, str] = (1, "a")


@dataclass(frozen=True)
class Options:
    part: str | tuple[str, ...] = "a"
    mixed: dict[str, bool | int | float] = field(default_factory=dict)
    some: Annotated[tuple[float | None, ...], annotated_types.Len(1, 2)] = (1.0,)
    config: Config = field(default_factory=lambda: Config(learner="dqn"))


@dataclass(frozen=True, kw_only=True)
class Open:
    name: str
    schedule: Schedule = field(default_factory=Schedule)
    train: Any


def refused(cls, data):
    with pytest.raises(ConfigError) as caught:
        from_dict(cls, data)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def test_omitted_keys_keep_the_defaults_of_their_section():
    assert from_dict(Config, {}) == Config()
    config = from_dict(Options, {"config": {"train": {"anneal": True}}}).config
    assert config == Config(learner="dqn", train=Train(num_envs=8, hidden_sizes=(32,), anneal=True))


@pytest.mark.parametrize(
    ("cls", "data", "found"),
    [
        *((Config, {"train": {"every": each}}, 7) for each in (7, 7.0, np.int64(7))),
        (Config, {"hyperparams": {"learning_rate": 1}}, 1.0),
        (Config, {"hyperparams": {"gamma": jnp.float32(0.3)}}, 0.3),
        (Config, {"hyperparams": {"offset": -math.inf}}, -math.inf),
        (Options, {"part": ["a"]}, ("a",)),
        *((Options, {"mixed": {"a": each}}, each) for each in (True, 2, 0.5)),
    ],
)
def test_values_keep_their_types(cls, data, found):
    value: Any = from_dict(cls, data)
    while isinstance(data, dict):
        ((key, data),) = data.items()
        value = value[key] if isinstance(value, dict) else getattr(value, key)
    assert (value, type(value)) == (found, type(found))


@pytest.mark.parametrize(
    ("data", "start"),
    [
        ({"hyperparams": {"learning_rate": -1}}, "hyperparams.learning_rate = -1: must be gr"),
        ({"hyperparams": {"gamma": 1.5}}, "hyperparams.gamma = 1.5: must be at most 1"),
        ({"hyperparams": {"learning_rte": 1}}, "unknown key 'hyperparams.learning_rte' (did you"),
        ({"trian": {}, "learner": 3}, "unknown key 'trian' (did you mean 'train'?); allowed: env"),
        ({"train": {"num_envs": 3}}, "train: num_envs must be divisible"),
        *(
            ({"train": {"every": value}}, f"train.every = {value!r}: must be a")
            for value in (2.5, True, math.inf, math.nan, "many", None)
        ),
        *(
            ({"hyperparams": {"offset": value}}, f"hyperparams.offset = {value!r:.9}")
            for value in ("nan", True, 10**400, [1.0])
        ),
        ({"train": {"anneal": "false"}}, "train.anneal = 'false': must be true or false"),
        ({"train": {"activation": "selu"}}, "train.activation = 'selu': must be 'tanh' or 'relu'"),
        ({"train": {"hidden_sizes": [64, 0]}}, "train.hidden_sizes[1] = 0: must be at least 1"),
        ({"train": 3}, "train = 3: must be a mapping of keys to values"),
        ({"learner": 3}, "learner = 3: must be text"),
        ({"pair": [1, "a", 2]}, "pair = [1, 'a', 2]: must be a list of at most 2"),
        ({"pair": [1]}, "missing key 'pair[1]'"),
        ([], "must be a mapping of keys to values, not []"),
        ({"part": 3}, "part = 3: must be text or a list"),
        ({"part": ["a", 3]}, "part[1] = 3: must be text"),
        ({"mixed": {"a": "b"}}, "mixed.a = 'b': must be true or false or an integer or a number"),
        ({"some": []}, "some = []: must be a list of at least 1"),
        ({"config": {"train": {"x": 1}}}, "unknown key 'config.train.x'"),
    ],
)
def test_invalid_values_are_refused_in_one_line(data, start):
    cls = Options if isinstance(data, dict) and data.keys() <= {*vars(Options())} else Config
    assert refused(cls, data).startswith(start)


def test_open_sections_are_validated():
    made = extended(Open, [section("train", Train), Setting("name", str, "a")])
    assert from_dict(made, {"train": {"num_envs": 6}}) == made(train=Train(num_envs=6))
    assert refused(made, {"train": {"num_envs": 0}}).startswith("train.num_envs = 0: must be at le")
    assert refused(extended(Open, [section("train", Train)]), {}) == "missing key 'name'"


KEYS = st.sampled_from(["train", "hyperparams", "gamma", "num_envs", "hidden_sizes", "env"])
TEXT = st.text(st.characters(codec="ascii")) | st.sampled_from(["1e-3", "no", "1:30", "~", "é"])
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | TEXT, inner, max_size=4),
    max_leaves=10,
)


@settings(max_examples=30)
@given(PLAIN)
def test_any_data_is_accepted_or_refused_in_one_line(data):
    with contextlib.suppress(ConfigError):  # whose message is one line
        assert isinstance(from_dict(Config, data), Config)


CONFIGS = st.builds(
    Config,
    learner=TEXT,
    hyperparams=st.builds(Hyperparams, offset=st.floats(allow_nan=False)),
    train=st.builds(Train, every=st.integers(), limit=st.none() | st.floats(1e-9, 1e9)),
    env=st.dictionaries(TEXT, PLAIN.filter(lambda value: value == value), max_size=3),
)


@settings(max_examples=30)
@given(config=CONFIGS)
def test_a_config_survives_yaml(tmp_path_factory, config):
    path = tmp_path_factory.getbasetemp() / "config.yaml"
    path.write_text(dump_yaml(to_dict(config)), encoding="utf-8")
    # As text, because a NaN inside the free-form dict differs from itself.
    assert repr(from_dict(Config, load_yaml(path))) == repr(config)


def test_numbers_with_an_exponent_are_numbers(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("a: 1e-3\nb: [-1.5E+2, .5, 1., -.inf, 3]\nc: '1e-3'\nd:\n")
    found = load_yaml(path)
    assert found == {"a": 0.001, "b": [-150.0, 0.5, 1.0, -math.inf, 3], "c": "1e-3", "d": None}
    assert yaml.safe_load(dump_yaml(found)) == found


@pytest.mark.parametrize(
    ("content", "where"),
    [
        (b"a: 1\nb:\n  c: 1\n  c: 2\n", ", line 4: "),
        (b"a: &x [1]\nb: *x\n", ", line 2: "),
        (b"a: 1\nb: !!python/name:os.system\n", ", line 2: "),
        (b"a: [1\nb: 2\n", ", line 2: "),
        (b"a: 1\n1: 2\n", ", line 2: "),
        (b"a: 1\n---\nb: 2\n", ", line 2: "),
        *((each, "") for each in (b"- 1\n", b"a: " + b"[" * 999, b"a: \x00", b"a: \xff")),
        *((each, "") for each in (b"a: 2026-13-45", b"a: !!bool x")),
    ],
)
def test_a_bad_file_is_named_in_one_line(tmp_path, content, where):
    path = tmp_path / "a.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_yaml(path)
    assert str(caught.value).startswith(f"{path}{where}")
    assert len(str(caught.value).splitlines()) == 1


def test_merge_is_deep_and_does_not_modify_its_arguments():
    base: dict[str, Any] = {"a": {"b": 1, "c": 2}, "d": 3, "e": {}}
    override = {"a": {"c": 4}, "d": {"f": 5}, "e": 6}
    assert merge(base, override) == {"a": {"b": 1, "c": 4}, "d": {"f": 5}, "e": 6}
    assert base == {"a": {"b": 1, "c": 2}, "d": 3, "e": {}}
