"""Fit formulas to a learned part by symbolic regression, each the nearest of its length.

The search follows Operon (Burlacu et al. 2020), with the multi-objective NSGA-II (Deb et al.
2002) for error and length.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from metaevo.config import ConfigError
from metaevo.discovery.observe import TARGETS, Observed, Samples
from metaevo.parts.expressions import Expression, Tree
from metaevo.parts.formula import Formula

SYMBOLS = "add,sub,mul,aq,tanh,abs,exp,fmin,fmax,constant,variable"
"""aq is a / sqrt(1 + b**2): unlike a / b it is finite everywhere."""
LENGTHS = 4, 6, 9, 12, 16, 20
"""Maximum lengths of formulas, as Operon counts them; each length has its own search, so that short
formulas are found too."""
GAIN = 0.05
"""A longer formula has to leave less unexplained, by this share."""
DIGITS = 4
MATTERS = 0.01
"""An input is left out if shuffling it changes the target by fewer standard deviations."""
NEGLIGIBLE = 1e-3
"""A term that varies by fewer standard deviations of the target is left out."""

Terms = Mapping[Tree, float]
"""A sum of trees with their factors; a number is a factor of ONE."""
ONE = 1


class Fitted(NamedTuple):
    """A formula of the front."""

    part: Formula
    error: float
    """the fraction of the target's variance that it does not explain"""

    @property
    def name(self) -> str:
        """Its name among the contenders of a judgement."""
        return f"formula of {self.part.length}"

    @property
    def text(self) -> str:
        """The formula with numbers in the place of its constants."""
        return self.part.text(self.part.init(jax.random.key(0)))


def mattering(slot: str, observed: Observed, seed: int) -> dict[str, np.ndarray]:
    """Return the inputs of formulas on which the target depends in recorded trainings.

    An input is left out if shuffling its samples hardly changes the target.
    """
    inputs, outputs, wanted = observed
    known = Expression(tree_of(TARGETS[slot].known)).names  # which are looked at anyway
    rng, found = np.random.default_rng(seed), {}
    for name, each in inputs.items():
        changed = outputs({**inputs, name: rng.permutation(each)}) - wanted
        matters = np.sqrt(np.mean(np.square(changed))) > MATTERS * np.std(wanted)
        if (matters and np.ptp(each)) or name in known:
            found[name] = each
    return found or dict(list(inputs.items())[:1])


def require() -> Any:
    """Return Operon's regressor.

    Raises:
        ConfigError: if it is not installed.
    """
    try:
        from pyoperon.sklearn import SymbolicRegressor
    except ImportError:
        raise ConfigError(
            "metaevo distill needs pyoperon, which the extra distill brings: "
            "pip install 'metaevo[distill]'"
        ) from None
    return SymbolicRegressor


def search(
    slot: str, inputs: Samples, wanted: np.ndarray, *, seed: int, evaluations: int
) -> list[Fitted]:
    """Return formulas of growing length, each with a smaller error than the ones before.

    They are fitted to `wanted` [samples]; `evaluations` is the total number of candidates.
    """
    wanted, known = wanted.astype(np.float64), TARGETS[slot].known
    rest = wanted - evaluated(tree_of(known), inputs)
    mean = float(np.mean(rest))
    every: list[Terms] = [{ONE: mean} if mean else {}]
    every += _sums(inputs, rest, seed=seed, evaluations=evaluations)
    found = []
    for terms in every:
        tree = tree_of(_sum(terms, known))
        left, part = evaluated(tree, inputs) - wanted, _formula(slot, tree)
        found.append(Fitted(part, float(np.mean(np.square(left)) / max(np.var(wanted), 1e-30))))
    return front(found)


def evaluated(tree: Tree, inputs: Samples) -> np.ndarray:
    """Return the value of a formula for inputs [samples] by name."""
    return np.asarray(Expression(tree).evaluate(inputs), np.float64)


def _sums(inputs: Samples, wanted: np.ndarray, *, seed: int, evaluations: int) -> Iterator[Terms]:
    """Yield the formulas that Operon finds for `wanted` [samples], without negligible terms."""
    make_regressor, least = require(), NEGLIGIBLE * float(np.std(wanted))
    table = np.stack(list(inputs.values()), axis=1).astype(np.float64)
    variables = {f"X{number}": name for number, name in enumerate(inputs, start=1)}
    for number, length in enumerate(LENGTHS, start=1):
        regressor = make_regressor(
            allowed_symbols=SYMBOLS,
            objectives=["mse", "length"],
            optimizer_iterations=5,
            max_length=length,
            max_evaluations=max(evaluations // len(LENGTHS), 1),
            epsilon=1e-6,
            n_threads=1,
            random_state=seed * (len(LENGTHS) + 1) + number,
        )
        regressor.fit(table, wanted)
        names = {key: variables[name] for key, name in regressor.variables_.items()}
        for solution in regressor.pareto_front_:
            terms = terms_of(solution["tree"].Nodes, names)
            sizes = {tree: np.square(evaluated(tree, inputs)).mean() for tree in terms}
            yield {
                tree: factor
                for tree, factor in terms.items()
                if not abs(factor) * np.sqrt(sizes[tree]) < least
            }


def front(formulas: Iterable[Fitted]) -> list[Fitted]:
    """Return the formulas with no equally good formula of at most their length, shortest first."""
    found: list[Fitted] = []
    for each in sorted(formulas, key=lambda each: (each.part.length, each.error)):
        best = found[-1].error if found else np.inf
        if np.isfinite(each.error) and not each.error >= (1 - GAIN) * best - 1e-9:
            found.append(each)
    return found


def thinned(formulas: list[Fitted], most: int) -> list[Fitted]:
    """Return at most so many of a front: its ends, and where the error falls most."""
    while len(formulas) > max(most, 1):
        errors = np.log([each.error + 1e-6 for each in formulas])
        gains = errors[:-2] - errors[1:-1]  # of all but the first and the last
        least = int(np.argmin(gains)) + 1 if len(gains) else 0
        formulas = formulas[:least] + formulas[least + 1 :]
    return formulas


# --- From Operon's trees to ours -----------------------------------------------------------------


def terms_of(nodes: Any, names: Mapping[int, str]) -> Terms:
    """Read a tree, which Operon keeps in postfix order, the first argument last."""
    stack: list[Terms] = []
    for node in nodes:
        kind = str(node.Type).rpartition(".")[2].lower()
        arguments = [stack.pop() for _ in range(node.Arity)]
        match kind:
            case "constant":
                stack.append({ONE: node.Value})
            case "variable":
                stack.append({names[node.HashValue]: node.Value})
            case "add":
                stack.append(_sum(*arguments))
            case "sub":
                stack.append(_sum(arguments[0], _product(arguments[1], {ONE: -1.0})))
            case "mul":
                stack.append(_product(*arguments))
            case _:
                stack.append(_applied(kind, *arguments))
    (terms,) = stack
    return terms


def _sum(first: Terms, second: Terms) -> Terms:
    total = {tree: first.get(tree, 0.0) + second.get(tree, 0.0) for tree in {**first, **second}}
    return {tree: factor for tree, factor in total.items() if factor}


def _product(first: Terms, second: Terms) -> Terms:
    """Return a product: expanded if either is a number, else of one term."""
    for number, terms in ((first, second), (second, first)):
        if set(number) <= {ONE}:
            size = number.get(ONE, 0.0)
            return {tree: size * factor for tree, factor in terms.items() if size}
    (tree, factor), (other, scale) = _single(first), _single(second)
    return {("power", tree, 2) if tree == other else ("multiply", tree, other): factor * scale}


def _single(terms: Terms) -> tuple[Tree, float]:
    """Return a sum as one tree and its factor."""
    return next(iter(terms.items())) if len(terms) == 1 else (tree_of(terms), 1.0)


def _applied(kind: str, *arguments: Terms) -> Terms:
    """Return a function of sums, as a number or one term."""
    names = {"fmin": "minimum", "fmax": "maximum"}
    tree, factor = (names.get(kind, kind), *map(tree_of, arguments)), 1.0
    if kind == "aq":
        divisor = tree_of(_sum(_product(arguments[1], arguments[1]), {ONE: 1.0}))
        dividend, factor = _single(arguments[0])
        tree = "divide", dividend, ("sqrt", divisor)
    if all(set(each) <= {ONE} for each in arguments):
        return {ONE: factor * float(Expression(tree).evaluate({}))}
    return {tree: factor}


def tree_of(terms: Terms) -> Tree:
    """Return a sum as a tree, its numbers with a few digits."""
    total: Tree | None = None
    for tree, factor in terms.items():
        size = float(f"{abs(factor):.{DIGITS}g}")
        if tree != ONE and abs(size - 1.0) < NEGLIGIBLE:
            size = 1.0
        if total is None:
            total = _scaled(size if factor > 0 else -size, tree)
        else:
            total = "add" if factor > 0 else "subtract", total, _scaled(size, tree)
    return 0.0 if total is None else total


def _scaled(factor: float, tree: Tree) -> Tree:
    """Return a tree times a number, which comes first."""
    match tree:
        case ("multiply" | "divide" as name, first, second):
            return name, _scaled(factor, first), second
        case 1:
            return factor
    return {1.0: tree, -1.0: ("negate", tree)}.get(factor, ("multiply", factor, tree))


def _formula(slot: str, tree: Tree) -> Formula:
    """Return a formula with named constants for all numbers but whole exponents, 0 and 1."""
    constants: dict[str, float] = {}

    def named(part: Tree) -> Tree:
        if isinstance(part, tuple):
            return part[0], *map(named, part[1:])
        if not isinstance(part, float) or abs(part) in (0.0, 1.0):
            return part
        name = f"c{len(constants)}"
        constants[name] = part
        return name

    return Formula(slot, Expression(named(tree)).text(), constants, gives=TARGETS[slot].gives)
