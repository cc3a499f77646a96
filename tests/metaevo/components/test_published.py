"""Published weights: the authors' updates, and files that are none of them."""

import hashlib

import jax
import numpy as np
import pytest
from flax.serialization import msgpack_serialize

from metaevo.__main__ import main
from metaevo.comparison.generality.measure import rates_of
from metaevo.comparison.generality.rules import key_of_weights, rule_of
from metaevo.comparison.generality.tasks import benchmark
from metaevo.components import discovery, filling, published, seen
from metaevo.config import ConfigError
from tests.metaevo.components import test_celo
from tests.metaevo.components.test_open import CASES


@pytest.fixture
def weights(tmp_path, monkeypatch):
    """A file that is taken for OPEN's of Freeway."""
    path = tmp_path / "freeway.npy"
    np.save(path, CASES[0].weights())
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    rules = [each._replace(sha256=digest) if each.name == "open-freeway" else each
             for each in published.RULES]  # fmt: skip
    monkeypatch.setattr(published, "RULES", tuple(rules))
    return path


CELO = test_celo.CASES[0].theta()


@pytest.fixture
def celo_weights(tmp_path, monkeypatch):
    """A file that is taken for Celo's."""
    path = tmp_path / "theta.state"
    path.write_bytes(msgpack_serialize(CELO))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    rule = published.CELO._replace(sha256=digest)
    monkeypatch.setattr(published, "RULES", (*published.RULES[:-1], rule))
    return path


def same(a, b):
    return jax.tree.all(jax.tree.map(lambda x, y: bool((x == y).all()), a, b))


def test_a_run_keeps_its_copy(weights, tmp_path):
    _, numbers = filling.fill("make_optimizer", str(weights), "ppo")
    assert same(numbers, published.unflatten(CASES[0].weights(), CASES[0].config))
    assert sum(leaf.size for leaf in jax.tree.leaves(numbers)) == 1211
    run = tmp_path / "run"
    filling.keep(run, "make_optimizer", str(weights))
    name = str(weights)
    weights.unlink()  # a run needs no other file
    _, copied = filling.fill("make_optimizer", name, "ppo", run)
    assert same(numbers, copied)
    envs = seen.environments(filling.seen_by("make_optimizer", name, run))
    assert envs == ("Freeway-MinAtar",)
    assert discovery.load_all(filling.copy_of(run, "make_optimizer"))[0].parts["open"].config == (
        CASES[0].config
    )


def test_celo_fills_the_slot_and_a_run_keeps_its_copy(celo_weights, tmp_path):
    name, run = str(celo_weights), tmp_path / "run"
    _, numbers = filling.fill("make_optimizer", name, "ppo")
    assert same(numbers, published.celo_weights(CELO))
    filling.keep(run, "make_optimizer", name)
    celo_weights.unlink()
    _, copied = filling.fill("make_optimizer", name, "ppo", run)
    assert same(numbers, copied)
    assert filling.seen_by("make_optimizer", name, run) == []
    with pytest.raises(ConfigError, match=r"does not tell it: loss"):
        filling.fill("make_optimizer", name, "dqn", run)


def test_celo_is_a_rule_of_the_benchmark(celo_weights):
    rule = rule_of(str(celo_weights))
    assert (rule.name, rule.slot, rule.seen) == ("celo", "make_optimizer", ())
    assert rule.weights.source()["licence"] == "MIT"
    assert rule.key == key_of_weights(rule.weights)


def altered(content):
    return content[:-1] + bytes([content[-1] ^ 1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (altered, "must be an unaltered file of github.com/amoudgl/celo (theta.state)"),
        (lambda content: content[:1000], "(1,000 bytes): must be an unaltered file"),
        (lambda content: b"", "(0 bytes): must be an unaltered file"),
        (lambda content: content + bytes(2**20), "larger than 1048576 bytes"),
    ],
)
def test_other_files_than_celos_are_one_line_and_not_parsed(
    change, message, celo_weights, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(published, "msgpack_restore", None)
    celo_weights.write_bytes(change(celo_weights.read_bytes()))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        raise SystemExit(main(["train", "--make_optimizer", "theta.state"]))
    error = capsys.readouterr().err
    assert (stopped.value.code, error.count("\n")) == (2, 1)
    assert message in error


def test_it_is_a_rule_of_the_benchmark(weights):
    rule = rule_of(str(weights))
    assert (rule.name, rule.slot) == ("open-freeway", "make_optimizer")
    assert rule.seen == ("Freeway-MinAtar",)
    assert rule.weights.source()["licence"] == "Apache-2.0"
    keys = {key_of_weights(each) for each in published.RULES}
    assert rule.key in keys
    assert len(keys) == 8
    assert len(rates_of(benchmark(), rule, None)) == 1  # it does not look at the learning rate


def test_it_needs_a_learner_with_epochs(weights):
    with pytest.raises(ConfigError, match=r"does not tell it: epoch"):
        filling.fill("make_optimizer", str(weights), "dqn")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        (np.zeros(1211, np.float32), "SHA-256 begins with"),
        (np.array([{}], dtype=object), "SHA-256 begins with"),
    ],
)
@pytest.mark.parametrize("command", ["train --make_optimizer", "generality"])
def test_other_files_are_one_line(content, message, command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        np.save("w.npy", content, allow_pickle=True)
    with pytest.raises(SystemExit) as stopped:
        raise SystemExit(main([*command.split(), "w.npy"]))
    error = capsys.readouterr().err
    assert (stopped.value.code, error.count("\n")) == (2, 1)
    assert message in error
    assert "w.npy" in error
