"""Settings from plain data, and YAML files: what is accepted, what is refused in one line."""

import contextlib
import math
from dataclasses import dataclass, field
from typing import Annotated, Any

import annotated_types
import jax.numpy as jnp
import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from metaevo.config import (
    ConfigError,
    dump_yaml,
    from_dict,
    load_yaml,
    merge,
    to_dict,
)
from tests.metaevo.example_config import Config, Hyperparams, Train


@dataclass(frozen=True)
class Options:
    part: str | tuple[str, ...] = "a"
    mixed: dict[str, bool | int | float] = field(default_factory=dict)
    some: Annotated[tuple[float | None, ...], annotated_types.Len(1, 2)] = (1.0,)
    config: Config = field(default_factory=lambda: Config(learner="dqn"))


@dataclass(frozen=True)
class Record:
    name: str
    frames: int


def test_omitted_keys_keep_the_defaults_of_their_section():
    assert from_dict(Config, {}) == Config()
    config = from_dict(Config, {"train": {"anneal": True}})
    assert config.train == Train(num_envs=8, hidden_sizes=(32,), anneal=True)
    assert type(config.hyperparams) is Hyperparams
    assert config.hyperparams.replace(gamma=0.5).gamma == 0.5
    nested = from_dict(Options, {"config": {"train": {"every": 3}}}).config
    assert nested == Config(learner="dqn", train=Train(num_envs=8, hidden_sizes=(32,), every=3))


@pytest.mark.parametrize(
    ("key", "given", "number"),
    [
        *(("train.every", given, 500_000) for given in (500000, 5e5, "5e5", "500000", 500000.0)),
        ("train.every", np.int64(7), 7),
        ("hyperparams.learning_rate", 1, 1.0),
        ("hyperparams.learning_rate", np.float32(0.5), 0.5),
        ("hyperparams.gamma", jnp.float32(0.25), 0.25),
        ("hyperparams.offset", "1e-3", 0.001),
        ("hyperparams.offset", -math.inf, -math.inf),
    ],
)
def test_numbers_may_be_written_in_any_way(key, given, number):
    section, name = key.split(".")
    found = getattr(getattr(from_dict(Config, {section: {name: given}}), section), name)
    assert (found, type(found)) == (number, type(number))


def test_the_first_option_of_several_that_fits_is_taken():
    found = from_dict(Options, {"part": ["a"], "mixed": {"a": True, "b": 2, "c": 0.5}})
    assert found.part == ("a",)
    assert [type(each) for each in found.mixed.values()] == [bool, int, float]


@pytest.mark.parametrize(
    ("data", "start"),
    [
        ({"hyperparams": {"learning_rate": -1}}, "hyperparams.learning_rate = -1: must be gr"),
        ({"hyperparams": {"gamma": 1.5}}, "hyperparams.gamma = 1.5: must be at most 1"),
        ({"hyperparams": {"learning_rte": 1}}, "unknown key 'hyperparams.learning_rte' (did you"),
        ({"trian": {}, "learner": 3}, "unknown key 'trian' (did you mean 'train'?); allowed: env"),
        ({"train": {"num_envs": 3}}, "train: num_envs must be divisible"),
        *(
            ({"train": {"every": value}}, f"train.every = {value!r}: must be an integer")
            for value in (2.5, True, math.inf, "many", None)
        ),
        *(
            ({"hyperparams": {key: value}}, f"hyperparams.{key} = {value!r:.9}")
            for key in ("learning_rate", "gamma", "offset")
            for value in (math.nan, "nan", True, 10**400, [1.0])
        ),
        (
            {"hyperparams": {"offset": np.bool_(True)}},
            "hyperparams.offset = True: must be",
        ),
        ({"train": {"anneal": "false"}}, "train.anneal = 'false': must be true or false"),
        ({"train": {"activation": "selu"}}, "train.activation = 'selu': must be 'tanh' or 'relu'"),
        ({"train": {"hidden_sizes": [64, 0]}}, "train.hidden_sizes[1] = 0: must be at least 1"),
        ({"train": 3}, "train = 3: must be a mapping of keys to values"),
        ({"learner": 3}, "learner = 3: must be text"),
        ({"pair": [1, "a", 2]}, "pair = [1, 'a', 2]: must be a list of at most 2"),
        ({"pair": []}, "pair = []: must be a list of at least 2"),
        ([], "must be a mapping of keys to values, not []"),
        ({"part": 3}, "part = 3: must be text or a list"),
        ({"part": ["a", 3]}, "part[1] = 3: must be text"),
        ({"mixed": {"a": "b"}}, "mixed.a = 'b': must be true or false or an integer or a number"),
        ({"some": []}, "some = []: must be a list of at least 1"),
        ({"config": {"train": {"x": 1}}}, "unknown key 'config.train.x'; allowed: activation"),
    ],
)
def test_invalid_values_are_refused_in_one_line(data, start):
    cls = Options if isinstance(data, dict) and data.keys() <= {*vars(Options())} else Config
    with pytest.raises(ConfigError) as caught:
        from_dict(cls, data)
    assert str(caught.value).startswith(start)
    assert len(str(caught.value).splitlines()) == 1


def test_a_missing_key_is_named():
    with pytest.raises(ConfigError, match=r"^missing key 'frames'$"):
        from_dict(Record, {"name": "a"})


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["train", "hyperparams", "gamma", "num_envs", "hidden_sizes", "env"])
            | st.text(),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@given(plain)
def test_arbitrary_data_is_accepted_or_refused_in_one_line(data):
    message = "one line"
    try:
        assert isinstance(from_dict(Config, data), Config)
    except ConfigError as error:
        message = str(error)
    assert len(message.splitlines()) == 1


configs = st.builds(
    Config,
    learner=st.text(),
    hyperparams=st.builds(
        Hyperparams,
        learning_rate=st.floats(min_value=0, exclude_min=True),
        gamma=st.floats(0, 1),
        offset=st.floats(allow_nan=False),
    ),
    train=st.builds(
        Train,
        every=st.integers(),
        num_envs=st.integers(1, 99).map(lambda half: 2 * half),
        hidden_sizes=st.lists(st.integers(1, 999)).map(tuple),
        activation=st.sampled_from(["tanh", "relu"]),
        anneal=st.booleans(),
        limit=st.none() | st.floats(min_value=0, exclude_min=True),
    ),
    env=st.dictionaries(st.text(), plain.filter(lambda value: value == value), max_size=3),
)


@given(config=configs)
def test_a_config_survives_yaml(tmp_path_factory, config):
    path = tmp_path_factory.getbasetemp() / "config.yaml"
    path.write_text(dump_yaml(to_dict(config)), encoding="utf-8")
    # As text, because a NaN inside the free-form dict differs from itself.
    assert repr(from_dict(Config, load_yaml(path))) == repr(config)


def test_yaml_reads_numbers_and_words_as_version_1_2_does(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(
        "a: 1e-3\nb: [-1.5E+2, .5, 1., -.inf]\nc: off\nd: 1:30\ne: 010\nf: 2026-11-20\ng: 0x1F\n"
        "h:\ni: ~\nj: 'true'\nk: True\nl: 1_000\nm: -3\nn: <<\n"
    )
    assert load_yaml(path) == {
        "a": 0.001, "b": [-150.0, 0.5, 1.0, -math.inf], "c": "off", "d": "1:30", "e": 10,
        "f": "2026-11-20", "g": 31, "h": None, "i": None, "j": "true", "k": True, "l": "1_000",
        "m": -3, "n": "<<",
    }  # fmt: skip


WORDS = ["1e-3", "on", "no", "1:30", "2026-11-20", "0o7", "~", "null", "a\x85", "\u2028"]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        *zip(WORDS, WORDS, strict=True),
        # file names that the locale cannot decode
        (b"\xc3\xa9tude".decode("ascii", "surrogateescape"), "\xe9tude"),
        (b"\xe9tude".decode("ascii", "surrogateescape"), "\N{REPLACEMENT CHARACTER}tude"),
    ],
)
def test_written_text_is_text_to_any_yaml_reader(given, text):
    assert yaml.safe_load(dump_yaml({"key": given})) == {"key": text}


@pytest.mark.parametrize(
    ("content", "where"),
    [
        (b"a: 1\nb:\n  c: 1\n  c: 2\n", ", line 4: "),
        (b"a: &x [1]\nb: *x\n", ", line 1: "),
        (b"a: 1\nb: !!python/name:os.system\n", ", line 2: "),
        (b"a: [1\nb: 2\n", ", line 2: "),
        (b"a: 1\n1: 2\n", ", line 2: "),
        (b"- 1\n", ""),
        (b"a: 1\n---\nb: 2\n", ", line 2: "),
        (b'a: "\\ud800"', ""),
        (b"a: " + b"[" * 5000, ""),
        (b"a: \x00", ""),
        (b"a: \xff", ""),
    ],
)
def test_a_bad_file_is_named_in_one_line(tmp_path, content, where):
    path = tmp_path / "a.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_yaml(path)
    assert str(caught.value).startswith(f"{path}{where}")
    assert len(str(caught.value).splitlines()) == 1


@given(
    st.binary(max_size=60)
    | st.text("{}[]:,&*!|>'\"%@`#-?<~01ae.\n \t", max_size=60).map(str.encode)
)
def test_arbitrary_files_load_or_raise_config_error(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(content)
    with contextlib.suppress(ConfigError):
        assert isinstance(load_yaml(path), dict)


def test_merge_is_deep_and_does_not_modify_its_arguments():
    base: dict[str, Any] = {"a": {"b": 1, "c": 2}, "d": 3, "e": {}}
    override = {"a": {"c": 4}, "d": {"f": 5}, "e": 6}
    assert merge(base, override) == {"a": {"b": 1, "c": 4}, "d": {"f": 5}, "e": 6}
    assert base == {"a": {"b": 1, "c": 2}, "d": 3, "e": {}}
