"""OPEN: its steps against the authors' code, and their weights as a saved part."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

import metaevo
from experiments.published import __main__ as published
from metaevo.judging.generality.rules import rule_of
from metaevo.parts import resolve
from metaevo.reports.pictures import Evolved
from metaevo.reports.slots import make_optimizer
from purerl import ppo
from purerl.parts import optimizers
from tests.experiments.published.open_steps import CASES, Case, our_updates
from tests.metaevo.evolving import forget_code
from tests.metaevo.toy import assert_same

RECORDED = json.loads((Path(__file__).parent / "open_updates.json").read_text(encoding="utf-8"))
SLOT = optimizers.MAKE_OPTIMIZER
CODE = "experiments/published/open.py"


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


@pytest.fixture
def weights(tmp_path, monkeypatch):
    """A file that is taken for a published one."""
    path, case = tmp_path / "freeway_OPEN.npy", CASES[0]
    np.save(path, case.weights())
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setattr(published, "KNOWN", {digest: ("Freeway-MinAtar",)})
    return path


def test_published_weights_become_a_part_for_every_command(weights, tmp_path, monkeypatch):
    saved, run = tmp_path / "open-freeway", tmp_path / "run"
    published.main([str(weights), str(saved)])
    weights.unlink()
    forget_code(monkeypatch)
    with pytest.raises(metaevo.ConfigError, match=r"add --code .*published/open\.py"):
        metaevo.load(saved)
    function, meta_params = metaevo.load(saved, code=CODE)
    assert type(function.__self__).__name__ == "Open"
    assert_same(meta_params, CASES[0].meta_params())
    resolve.keep(run, SLOT, str(saved))
    assert_same(resolve.fill(SLOT, str(saved), run).meta_params, meta_params)
    rule = rule_of(str(saved))
    assert (rule.name, rule.slot, rule.seen) == (saved.name, SLOT.name, ("Freeway-MinAtar",))


def test_the_report_draws_an_optimizer_that_needs_all_arguments():
    part, hyperparams = CASES[0].part, ppo.Hyperparams()
    found = Evolved(part, CASES[0].meta_params(), ppo.LEARNER, hyperparams, None)
    for panel in make_optimizer(found):
        assert all(np.isfinite(y).all() for _, y in panel.curves.values())


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "No such file"), (b"", "its SHA-256 begins with e3b0c442; must be an unaltered copy")],
)
def test_altered_files_are_refused_before_parsing(content, message, weights, tmp_path, monkeypatch):
    monkeypatch.setattr(np, "load", None)
    if content is None:
        weights.unlink()
    else:
        weights.write_bytes(content)
    with pytest.raises(SystemExit, match=message):
        published.main([str(weights), str(tmp_path / "part")])
    assert not (tmp_path / "part").exists()
