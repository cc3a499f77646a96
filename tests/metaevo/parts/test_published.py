"""Published weights in a slot, in a run and in the benchmark; files that are none of them."""

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from metaevo.__main__ import main
from metaevo.judging.generality.measurement import Measurement
from metaevo.judging.generality.rules import key_of_weights, rule_of
from metaevo.parts import published, resolve, seen
from purerl.parts import optimizers
from tests.metaevo.parts.open_steps import CASES, Case, our_updates
from tests.metaevo.toy import assert_same

SLOT = optimizers.MAKE_OPTIMIZER
RECORDED = json.loads((Path(__file__).parent / "open_updates.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("number", range(len(CASES)))
def test_updates_match_the_authors_code(number):
    """Six steps of OPEN's code, whose largest are 2e-3."""
    recorded = dict(RECORDED[number])
    updates, noise = recorded.pop("updates"), [*map(np.float32, recorded.pop("noise"))]
    case = Case(**recorded)
    assert case == CASES[number]
    found = our_updates(case, case.weights(), noise)
    np.testing.assert_allclose(found, updates, rtol=0, atol=1e-7)
    swapped = case.weights()
    swapped[[0, 1]] = swapped[[1, 0]]
    assert np.abs(np.subtract(our_updates(case, swapped, noise), updates)).max() > 1e-6


class Weights(NamedTuple):
    """A file that is taken for a published one."""

    name: str
    path: Path
    numbers: Any
    config: Any
    envs: tuple[str, ...]


@pytest.fixture
def weights(tmp_path, monkeypatch):
    path, config, name = tmp_path / "freeway.npy", CASES[0].config, "open-freeway"
    np.save(path, CASES[0].weights())
    numbers = published.unflatten(CASES[0].weights(), (config.memory_size, config.hidden_size))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    rules = [each._replace(sha256=digest) if each.name == name else each
             for each in published.RULES]  # fmt: skip
    monkeypatch.setattr(published, "RULES", tuple(rules))
    return Weights(name, path, numbers, config, ("Freeway-MinAtar",))


def test_published_weights_fill_the_slot_and_are_copied(weights, tmp_path):
    name, run = str(weights.path), tmp_path / "run"
    _, numbers = resolve.fill(SLOT, name)
    assert_same(numbers, weights.numbers)
    resolve.keep(run, SLOT, name)
    weights.path.unlink()  # a run needs no other file
    _, copied = resolve.fill(SLOT, name, run)
    assert_same(copied, weights.numbers)
    assert seen.environments(resolve.seen_by(SLOT, name, run)) == weights.envs
    assert resolve.part_of(resolve.copy_of(run, "make_optimizer")).part == weights.config


def test_published_weights_are_benchmark_rules(weights):
    rule = rule_of(str(weights.path))
    assert (rule.name, rule.slot, rule.seen) == (weights.name, "make_optimizer", weights.envs)
    keys = {key_of_weights(each) for each in published.RULES}
    assert rule.key in keys
    assert len(keys) == 7
    rates = Measurement(str(weights.path), ["cartpole"]).rates
    assert len(rates) == 1  # it does not look at the learning rate


def altered(content):
    return content[:-1] + bytes([content[-1] ^ 1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (None, "No such file"),
        (altered, "must be an unaltered file of github.com/"),
        (lambda content: b"", "(0 bytes): must be an unaltered file"),
    ],
)
@pytest.mark.parametrize("command", ["train --make_optimizer", "generality"])
def test_altered_files_are_refused_before_parsing(
    change, message, command, weights, monkeypatch, refused
):
    monkeypatch.setattr(np, "load", None)
    if change is None:
        weights.path.unlink()
    else:
        weights.path.write_bytes(change(weights.path.read_bytes()))
    error = refused(main, [*command.split(), str(weights.path)])
    assert message in error
    assert weights.path.name in error
