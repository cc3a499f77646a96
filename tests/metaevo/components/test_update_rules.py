"""The pictures of update rules show what the rules do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metaevo.components import lpg as component
from metaevo.components import update_rules
from metaevo.components.component import Found
from purerl import lpg
from purerl.learners import LEARNERS
from purerl.parts.update_rules import a2c
from purerl.types import Context, Targets

HYPERPARAMS = lpg.Hyperparams(gamma=0.9, gae_lambda=0.5)


def found(apply, meta_params=None):
    return Found(apply, meta_params, LEARNERS["lpg"], HYPERPARAMS, lambda: np.empty(0))


def learned(temporal):
    made = component.make(component.Config(4, temporal))
    return found(made.apply, jax.tree.map(lambda x: x + 0.2, made.init(jax.random.key(0))))


def last_step_only(sign):
    """A rule that credits the action that was rewarded, and no other."""
    return found(lambda m, c, seen: Targets(sign * seen.reward, seen.prediction))


def test_a2c_gives_credit_by_gamma_lambda():
    curve = update_rules.credit(a2c, None, Context(HYPERPARAMS))
    np.testing.assert_allclose(curve, 0.45 ** np.arange(update_rules.STEPS), rtol=1e-5, atol=1e-7)


def test_a_rule_that_knows_the_time_has_a_curve_a_quarter():
    assert list(update_rules.credits_of(learned(False))) == ["learned", "a2c"]
    curves = update_rules.credits_of(learned(True))
    assert list(curves) == [
        *(f"learned ({name} quarter)" for name in ("first", "second", "third", "last")),
        "a2c",
    ]


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        (
            last_step_only(2.0),
            "A reward of 1 raises the weight of the action that earned it by 2, and of actions a "
            "step earlier by less than half as much.",
        ),
        (last_step_only(-2.0), "A reward makes the action that earned it no likelier."),
        (last_step_only(jnp.nan), "The rule's targets are not finite."),
        (
            found(lambda m, c, seen: Targets(seen.reward.sum(0) + 0 * seen.reward, seen.reward)),
            "A reward of 1 raises the weight of the action that earned it by 1, and of actions 15 "
            "steps earlier by at least half as much.",
        ),
    ],
)
def test_findings(rule, sentence):
    assert update_rules.findings(rule, {}) == [sentence]


@pytest.mark.long
@pytest.mark.parametrize("rule", [learned(True), found(a2c)], ids=["distributions", "values"])
def test_pictures(rule, tmp_path, monkeypatch):
    monkeypatch.setattr(update_rules, "NUM_UPDATES", 2)
    update_rules.draw(rule, tmp_path / "figures")
    drawn = {path.name: path.read_bytes()[:4] for path in (tmp_path / "figures").iterdir()}
    assert drawn == dict.fromkeys(update_rules.CAPTIONS, b"\x89PNG")
