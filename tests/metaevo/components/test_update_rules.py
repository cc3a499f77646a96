"""The pictures of update rules show what the rules do."""

import jax
import numpy as np

from metaevo.components import lpg as component
from metaevo.components import update_rules
from metaevo.components.component import Found
from purerl import lpg
from purerl.learners import LEARNERS
from purerl.parts.update_rules import a2c
from purerl.types import Context

HYPERPARAMS = lpg.Hyperparams(gamma=0.9, gae_lambda=0.5)


def found(apply, meta_params=None):
    return Found(apply, meta_params, LEARNERS["lpg"], HYPERPARAMS, lambda: np.empty(0))


def learned(temporal):
    made = component.make(component.Config(4, temporal))
    return found(made.apply, jax.tree.map(lambda x: x + 0.2, made.init(jax.random.key(0))))


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
