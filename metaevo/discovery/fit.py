"""Fit formulas to a learned part by symbolic regression, each the nearest of its length.

The search follows Operon (Burlacu et al. 2020), with the multi-objective NSGA-II (Deb et al.
2002) for error and length.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from metaevo.config import ConfigError
from metaevo.discovery.observe import TARGETS, Observed, Samples
from metaevo.parts.expressions import parse
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
NUMBER = re.compile(r"(?<![\w.])\d[\d.]*(e[+-]\d+)?")

Terms = dict[str, float]
"""A sum of texts with their factors; the text of a number is empty."""


class Fitted(NamedTuple):
    """A formula of the front."""

    part: Formula
    error: float
    """the fraction of the target's variance that it does not explain"""

    @property
    def length(self) -> int:
        """Number of numbers, names, operators and functions."""
        return self.part.length

    @property
    def name(self) -> str:
        """Its name among the contenders of a judgement."""
        return f"formula of {self.length}"

    @property
    def text(self) -> str:
        """The formula with numbers in the place of its constants."""
        return self.part.written(self.part.constants)


def mattering(slot: str, observed: Observed, seed: int) -> dict[str, np.ndarray]:
    """Return the inputs of formulas on which the target depends in recorded trainings.

    An input is left out if shuffling its samples hardly changes the target.
    """
    inputs, outputs, wanted = observed
    known = parse(TARGETS[slot].known or "0", list(inputs), {}).names  # which is looked at anyway
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
    rest = wanted - evaluated(known, inputs) if known else wanted
    mean = float(np.mean(rest))
    every = [{"": mean} if mean else {}, *_sums(inputs, rest, seed=seed, evaluations=evaluations)]
    found = []
    for terms in every:
        part = _formula(slot, terms)
        left = evaluated(part.expression, inputs, part.constants) - wanted
        found.append(Fitted(part, float(np.mean(np.square(left)) / max(np.var(wanted), 1e-30))))
    return front(found)


def evaluated(
    text: str, inputs: Samples, constants: Mapping[str, float] | None = None
) -> np.ndarray:
    """Return the value of a formula for inputs [samples] by name."""
    numbers = constants or {}
    found = parse(text, list(inputs), numbers).evaluate({**inputs, **numbers})
    return np.asarray(found, np.float64)


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
            sizes = {text: np.square(evaluated(text or "1", inputs)).mean() for text in terms}
            yield {
                text: factor
                for text, factor in terms.items()
                if not abs(factor) * np.sqrt(sizes[text]) < least
            }


def front(formulas: Iterable[Fitted]) -> list[Fitted]:
    """Return the formulas with no equally good formula of at most their length, shortest first."""
    found: list[Fitted] = []
    for each in sorted(formulas, key=lambda each: (each.length, each.error)):
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


# --- From Operon's trees to the language of formulas ---------------------------------------------


def terms_of(nodes: Any, names: Mapping[int, str]) -> Terms:
    """Read a tree, which Operon keeps in postfix order, the first argument last."""
    stack: list[Terms] = []
    for node in nodes:
        kind = str(node.Type).rpartition(".")[2].lower()
        arguments = [stack.pop() for _ in range(node.Arity)]
        match kind:
            case "constant":
                stack.append({"": node.Value})
            case "variable":
                stack.append({names[node.HashValue]: node.Value})
            case "add":
                stack.append(_sum(*arguments))
            case "sub":
                stack.append(_sum(arguments[0], _product(arguments[1], {"": -1.0})))
            case "mul":
                stack.append(_product(*arguments))
            case _:
                stack.append(_applied(kind, *arguments))
    (terms,) = stack
    return terms


def _sum(first: Terms, second: Terms) -> Terms:
    total = {text: first.get(text, 0.0) + second.get(text, 0.0) for text in {**first, **second}}
    return {text: factor for text, factor in total.items() if factor}


def _product(first: Terms, second: Terms) -> Terms:
    """Return a product: expanded if either is a number, else of one term."""
    for number, terms in ((first, second), (second, first)):
        if set(number) <= {""}:
            size = number.get("", 0.0)
            return {text: size * factor for text, factor in terms.items() if size}
    (text, factor), (other, scale) = _single(first), _single(second)
    return {f"({text})**2" if text == other else f"{text} * {other}": factor * scale}


def _single(terms: Terms) -> tuple[str, float]:
    """Return a sum as one text, in brackets if it has several terms, and its factor."""
    if len(terms) == 1:
        return next(iter(terms.items()))
    return f"({text_of(terms)})", 1.0


def _applied(kind: str, *arguments: Terms) -> Terms:
    """Return a function of sums, as a number or one term."""
    names, factor = {"fmin": "minimum", "fmax": "maximum"}, 1.0
    text = f"{names.get(kind, kind)}({', '.join(map(text_of, arguments))})"
    if kind == "aq":
        divisor = _sum(_product(arguments[1], arguments[1]), {"": 1.0})
        text, factor = _single(arguments[0])
        text = f"{text or '1'} / sqrt({text_of(divisor)})"
    if all(set(each) <= {""} for each in arguments):
        return {"": factor * float(parse(text, [], {}).evaluate({}))}
    return {text: factor}


def text_of(terms: Terms) -> str:
    """Return a sum as text, its numbers with a few digits."""
    words = []
    for text, factor in terms.items():
        size = float(f"{abs(factor):.{DIGITS}g}")
        is_one = bool(text) and abs(size - 1.0) < NEGLIGIBLE
        words.append("-" if factor < 0 else "+")
        words.append(text if is_one else f"{size!r} * {text}" if text else repr(size))
    return " ".join(words).replace("* 1 / ", "/ ").removeprefix("+ ") or "0.0"


def _formula(slot: str, terms: Terms) -> Formula:
    """Return a formula with named constants for all numbers but 0 and 1."""
    constants: dict[str, float] = {}

    def named(number: re.Match[str]) -> str:
        value, name = float(number[0]), f"c{len(constants)}"
        if number[0].isdigit() or value in (0.0, 1.0):
            return number[0]
        constants[name] = value
        return name

    target = TARGETS[slot]
    text = f"{text_of(terms) if terms or not target.known else ''}{target.known}"
    tree = ast.parse(NUMBER.sub(named, text.strip()), mode="eval")
    return Formula(slot, ast.unparse(tree), constants, gives=target.gives)
