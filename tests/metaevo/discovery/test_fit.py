import sys
from typing import NamedTuple

import numpy as np
import pytest

from metaevo.config import ConfigError
from metaevo.discovery import fit
from metaevo.discovery.observe import TARGETS, Observed
from metaevo.parts.expressions import Expression, parse
from metaevo.parts.formula import Formula

X = np.linspace(-2, 2, 41)
Y = np.cos(np.arange(41.0))
NAMES = {1: "x", 2: "y"}
FUNCTIONS = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Aq": lambda a, b: a / np.sqrt(1 + b**2),
    "Fmin": np.minimum,
    "Fmax": np.maximum,
    "Tanh": np.tanh,
    "Abs": np.abs,
    "Exp": np.exp,
}


class Node(NamedTuple):
    Type: str
    Arity: int = 0
    Value: float = 1.0
    HashValue: int = 0


def random_tree(rng, depth):
    if depth == 0 or rng.random() < 0.2:
        value = float(f"{rng.normal():.3g}")
        match rng.integers(3):
            case 0:
                return [Node("NodeType.Constant", 0, value)], np.full_like(X, value)
            case which:
                data = X if which == 1 else Y
                return [Node("NodeType.Variable", 0, value, int(which))], value * data
    name = rng.choice(list(FUNCTIONS))
    arity = 1 if name in ("Tanh", "Abs", "Exp") else 2
    parts = [random_tree(rng, depth - 1) for _ in range(arity)]
    nodes = [node for part, _ in reversed(parts) for node in part]
    return [*nodes, Node(f"NodeType.{name}", arity)], FUNCTIONS[name](*(v for _, v in parts))


def test_trees_and_their_texts_evaluate_the_same():
    for seed in range(20):
        nodes, expected = random_tree(np.random.default_rng(seed), depth=3)
        text = Expression(fit.tree_of(fit.terms_of(nodes, NAMES))).text()
        found = parse(text, ["x", "y"], {}).evaluate({"x": X, "y": Y})
        largest = (1 + np.abs(expected)).max()  # numbers are written with four digits
        found = np.broadcast_to(found, X.shape)
        np.testing.assert_allclose(found, expected, rtol=0.05, atol=0.02 * largest, err_msg=text)


def formula(length, error):
    return fit.Fitted(Formula(expression=" + ".join(["error"] * (length // 2 + 1)),
                              constants={}), error)  # fmt: skip


def test_the_front_has_only_improvements():
    given = [formula(5, 0.2), formula(1, 1.0), formula(3, 0.2), formula(9, 0.199), formula(7, 0.1)]
    given += [formula(3, 1.2), formula(11, float("nan"))]
    assert [each.part.length for each in fit.front(given)] == [1, 3, 7]
    given = [formula(1, 1.0), formula(3, 0.99), formula(5, 0.1), formula(7, 0.09), formula(9, 0.01)]
    assert [each.part.length for each in fit.thinned(given, 3)] == [1, 5, 9]
    assert [each.part.length for each in fit.thinned(given, 1)] == [9]
    assert fit.thinned(given, 9) == given


@pytest.mark.parametrize(
    ("slot", "output", "found"),
    [
        ("value_loss", lambda inputs: np.tanh(2 * inputs["error"]) + 0.3, ["error"]),
        ("value_loss", lambda inputs: inputs["progress"], ["progress"]),
        # a policy loss always has ratio * advantage
        ("policy_loss", lambda inputs: inputs["log_ratio"], ["log_ratio", "ratio", "advantage"]),
    ],
)
def test_only_inputs_that_matter_are_searched_in(slot, output, found):
    scalars = np.random.default_rng(0).normal(size=(600, 3 if slot == "value_loss" else 2))
    inputs = TARGETS[slot].inputs_of(scalars) | {"progress": np.linspace(0, 1, 600)}
    observed = Observed(inputs, output, output(inputs))
    assert list(fit.mattering(slot, observed, seed=0)) == found


def test_a_formula_is_found():
    pytest.importorskip("pyoperon")
    error = np.random.default_rng(0).normal(size=600)
    wanted = np.tanh(2 * error) + 0.3
    found = fit.search("value_loss", {"error": error}, wanted, seed=0, evaluations=9000)
    assert found[0].part.expression == "c0"
    np.testing.assert_allclose(found[0].error, 1.0, rtol=1e-3)
    best = found[-1]
    assert best.error < 1e-4
    error = np.float32([-3.0, 0.0, 0.2, 3.0])
    (formula,) = best.part.factors.values()
    value = formula.evaluate({"error": error, **best.part.constants})
    np.testing.assert_allclose(value, np.tanh(2 * error) + 0.3, atol=0.03)


def test_a_policy_loss_is_its_drift_and_the_rest_is_known():
    pytest.importorskip("pyoperon")
    scalars = np.random.default_rng(0).normal(size=(500, 2)) * [0.2, 1.0]
    inputs = TARGETS["policy_loss"].inputs_of(scalars)
    wanted = 0.5 * inputs["log_ratio"] - inputs["ratio"] * inputs["advantage"]
    found = fit.search("policy_loss", inputs, wanted, seed=0, evaluations=3000)
    assert found[-1].text == "0.5 * log_ratio - ratio * advantage"
    assert found[-1].error < 1e-6


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyoperon.sklearn", None)
    with pytest.raises(ConfigError, match=r"pip install 'metaevo\[distill\]'"):
        fit.require()
