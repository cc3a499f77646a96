"""Symbolic regression: formulas for a learned part, each the nearest of its length.

The search follows Operon (Burlacu et al. 2020), with the multi-objective NSGA-II (Deb et al.
2002) for error and length.
"""

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from metaevo.config import ConfigError
from metaevo.config.plain import PlainDict
from metaevo.discovery.records import Records
from metaevo.discovery.targets import Target
from metaevo.parts import formula
from metaevo.parts.expressions import parse

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

Terms = dict[str, float]
"""A sum of texts with their factors; the text of a number is empty."""


class Fitted(NamedTuple):
    """A formula of the front."""

    part: formula.Formula
    length: int
    error: float
    """the fraction of the target's variance that it does not explain"""

    @property
    def name(self) -> str:
        """Its name among the contenders of a judgement."""
        return f"formula of {self.length}"

    @property
    def text(self) -> str:
        """The formula with numbers in the place of its constants."""
        return self.part.written(self.part.constants)

    def record(self) -> PlainDict:
        """Return its entry in distilled.json."""
        part = self.part
        return {
            "name": self.name,
            "length": self.length,
            "error": self.error,
            "text": self.text,
            "expression": part.expression,
            "constants": part.constants,
            "gives": part.gives,
        }


def mattering(
    target: Target,
    records: Records,
    values: Callable[[Records], np.ndarray],
    seed: int,
) -> dict[str, np.ndarray]:
    """Return the inputs of formulas on which the target depends in recorded trainings.

    An input is left out if shuffling its samples hardly changes the target, which `values` returns
    [samples] for any records.
    """
    inputs = records.inputs(target)
    known = parse(target.known or "0", list(inputs), {}).names  # which is looked at anyway
    rng = np.random.default_rng(seed)
    found = {}
    for name, each in inputs.items():
        shuffled = inputs | {name: rng.permutation(each)}
        changed = values(records.with_inputs(target, shuffled)) - records.wanted
        matters = np.sqrt(np.mean(np.square(changed))) > MATTERS * np.std(records.wanted)
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
    slot: str,
    target: Target,
    records: Records,
    inputs: Mapping[str, np.ndarray],
    *,
    seed: int,
    evaluations: int,
) -> list[Fitted]:
    """Return formulas of growing length, each with a smaller error than the ones before.

    They are of the `inputs`, [samples] by name; `evaluations` is the total number of candidates.
    """
    wanted = records.wanted.astype(np.float64)
    if target.known:
        given = {name: np.asarray(each, np.float64) for name, each in inputs.items()}
        wanted = wanted - np.asarray(parse(target.known, list(given), {}).evaluate(given))
    average = float(np.mean(wanted))
    candidates = [_formula(slot, target, {"": average} if average else {})]
    for terms in sums_of(inputs, wanted, seed=seed, evaluations=evaluations):
        candidates.append(_formula(slot, target, terms))
    return front([_judged(each, records, inputs) for each in candidates])


def sums_of(
    inputs: Mapping[str, np.ndarray], wanted: np.ndarray, *, seed: int, evaluations: int
) -> Iterator[Terms]:
    """Yield the formulas that Operon finds for `wanted` [samples], without negligible terms."""
    make_regressor = require()
    names = list(inputs)
    table = np.stack([inputs[name] for name in names], axis=1).astype(np.float64)
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
        variables = {f"X{index + 1}": name for index, name in enumerate(names)}
        meaning = {key: variables[name] for key, name in regressor.variables_.items()}
        for solution in regressor.pareto_front_:
            terms = _terms(solution["tree"].Nodes, meaning)
            yield _kept(terms, inputs, float(np.std(wanted)))


def front(formulas: Iterable[Fitted]) -> list[Fitted]:
    """Return the formulas with no equally good formula of at most their length, shortest first."""
    found: list[Fitted] = []
    for each in sorted(formulas, key=lambda each: (each.length, each.error)):
        if np.isfinite(each.error) and (
            not found or each.error < (1 - GAIN) * found[-1].error - 1e-9
        ):
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


def _judged(config: formula.Formula, records: Records, inputs: Mapping[str, np.ndarray]) -> Fitted:
    expression = config.parsed
    values = {name: np.asarray(each) for name, each in inputs.items()} | config.constants
    found = np.asarray(expression.evaluate(values), np.float64)
    left = np.mean(np.square(found - records.wanted))
    variance = np.var(records.wanted.astype(np.float64))
    return Fitted(config, expression.length, float(left / max(variance, 1e-30)))


# --- From Operon's trees to the language of formulas ---------------------------------------------

INVERSE = "1 / "
"""How a text begins that is a number's quotient."""


def _terms(nodes: Any, names: Mapping[int, str]) -> Terms:
    """Read a tree, which Operon keeps in postfix order, the first argument last."""
    stack: list[Terms] = []
    for node in nodes:
        kind = str(node.Type).rpartition(".")[2].lower()
        arguments = [stack.pop() for _ in range(node.Arity)]
        if kind == "constant":
            stack.append({"": node.Value})
        elif kind == "variable":
            stack.append({names[node.HashValue]: node.Value})
        else:
            stack.append(_applied(kind, *arguments))
    (terms,) = stack
    return terms


def _applied(kind: str, first: Terms, second: Terms | None = None) -> Terms:
    """A function of sums, as a sum."""
    if second is None:
        if set(first) <= {""}:
            functions = {"abs": np.abs, "exp": np.exp, "tanh": np.tanh}
            return {"": float(functions[kind](first.get("", 0.0)))}
        if kind == "exp" or len(first) > 1:
            return {f"{kind}({text_of(first)})": 1.0}
        ((text, factor),) = first.items()  # both are the same for both signs, but for tanh's
        if kind == "abs":
            return {f"abs({text})": abs(factor)}
        return {f"tanh({text_of({text: abs(factor)})})": 1.0 if factor > 0 else -1.0}
    if kind in ("add", "sub"):
        total = dict(first)
        for text, factor in second.items():
            total[text] = total.get(text, 0.0) + (factor if kind == "add" else -factor)
        return {text: factor for text, factor in total.items() if factor}
    if kind in ("fmin", "fmax"):
        name = {"fmin": "minimum", "fmax": "maximum"}[kind]
        return {f"{name}({text_of(first)}, {text_of(second)})": 1.0}
    if kind == "aq":
        divisor = _product(second, second)
        divisor[""] = divisor.get("", 0.0) + 1.0
        if set(divisor) <= {""}:
            return {text: factor / divisor[""] ** 0.5 for text, factor in first.items()}
        if len(first) > 1:
            return {f"({text_of(first)}) / sqrt({text_of(divisor)})": 1.0}
        ((text, factor),) = first.items() or {"": 0.0}.items()
        return {
            f"{text} / sqrt({text_of(divisor)})"
            if text
            else f"{INVERSE}sqrt({text_of(divisor)})": factor
        }
    assert kind == "mul", kind
    return _product(first, second)


def _product(first: Terms, second: Terms) -> Terms:
    """Return the product of two sums: expanded if either is a single term, else in brackets."""
    if not first or not second:
        return {}
    if first == second and len(first) > 1:
        return {f"({text_of(first)})**2": 1.0}
    if len(first) > 1 and len(second) > 1:
        return {f"({text_of(first)}) * ({text_of(second)})": 1.0}
    if len(second) == 1:
        first, second = second, first
    ((text, factor),) = first.items()
    if not text:
        return {other: factor * each for other, each in second.items()}
    if len(second) > 1:
        return {f"{text} * ({text_of(second)})": factor}
    ((other, each),) = second.items()
    if other == text:
        return {f"{text if text.isidentifier() else f'({text})'}**2": factor * each}
    if other.startswith(INVERSE):
        return {text + other[1:]: factor * each}
    return {f"{text} * {other}" if other else text: factor * each}


def text_of(terms: Terms) -> str:
    """A sum as text, its numbers with a few digits."""
    words = []
    for text, factor in terms.items():
        number = float(f"{factor:.{DIGITS}g}")
        if abs(abs(number) - 1.0) < NEGLIGIBLE:
            number = float(np.sign(number))
        word = size = repr(abs(number))
        if text.startswith(INVERSE):
            word = size + text[1:]
        elif text:
            word = text if size == "1.0" else f"{size} * {text}"
        words.append(f"{'-' if number < 0 else '+'} {word}")
    joined = " ".join(words).removeprefix("+ ") or "0.0"
    return f"-{joined[2:]}" if joined.startswith("- ") else joined


def _kept(terms: Terms, inputs: Mapping[str, np.ndarray], spread: float) -> Terms:
    """The terms that matter."""
    found = {}
    for text, factor in terms.items():
        values = parse(text or "1", list(inputs), {}).evaluate(inputs)
        size = abs(factor) * np.sqrt(np.mean(np.square(np.asarray(values, np.float64))))
        if not size < NEGLIGIBLE * spread:
            found[text] = factor
    return found


def _formula(slot: str, target: Target, terms: Terms) -> formula.Formula:
    """Return a formula with named constants for all numbers but 0 and 1."""
    text = text_of(terms) + target.known
    if target.known and not terms:
        text = target.known.strip().replace("- ", "-", 1)
    named = _Named()
    tree = named.visit(ast.parse(text, mode="eval"))
    return formula.Formula(slot, ast.unparse(tree), named.constants, gives=target.gives)


class _Named(ast.NodeTransformer):
    """Gives names to the numbers of a formula."""

    def __init__(self) -> None:
        self.constants: dict[str, float] = {}

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        """Return the name of a new constant."""
        if not isinstance(node.value, float) or node.value in (0.0, 1.0):
            return node
        name = f"c{len(self.constants)}"
        self.constants[name] = node.value
        return ast.Name(name)
