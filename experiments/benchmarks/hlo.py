"""Costs of an optimised GPU program, read from its text: kernels, bytes, questions to the host.

A loop costs its body times its trips. A loop with an unknown number of trips counts once and, like
a conditional, waits for the host. In a CUDA graph neither does, but each iteration evaluates the
condition of its loop and passes it to the graph.
"""

import math
import re
from collections import defaultdict
from collections.abc import Set
from typing import NamedTuple

import numpy as np

FREE = (
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "opt-barrier", "after-all",
    "add-dependency", "domain", "get-dimension-size", "partition-id", "replica-id",
)  # fmt: skip
"""Instructions without a kernel."""


class Cost(NamedTuple):
    """Kernels, kernels inside CUDA graphs, waits for the host, bytes that are read and written."""

    launches: float
    graphed: float
    syncs: float
    bytes: float


class Instruction(NamedTuple):
    """An instruction of a computation."""

    is_root: bool
    name: str
    type: str
    op: str
    operands: list[str]
    attributes: str

    def attribute(self, name: str) -> str:
        """The computation that an attribute names, or an empty string."""
        found = re.search(rf"\b{name}=%?([\w.\-]+)", self.attributes)
        return found.group(1) if found else ""

    @property
    def trips(self) -> int | None:
        """Iterations of a loop, None if the device decides it."""
        found = re.search(r'"known_trip_count":\{"n":"(\d+)"', self.attributes)
        return int(found.group(1)) if found else None


Table = dict[str, Instruction]


class Program:
    """An optimised program for one GPU."""

    def __init__(self, text: str, graphed: Set[str] = frozenset()):
        """Parse a text; `graphed` are the names of the instructions inside CUDA graphs."""
        self.graphed, self.entry = graphed, ""
        self.computations = defaultdict[str, Table](dict)
        for line in text.splitlines():
            if head := re.match(r"(ENTRY )?%?([\w.\-]+) \(.*\{\s*$", line):
                name = head.group(2)
                self.entry = name if head.group(1) else self.entry
            pattern = r"\s+(ROOT )?%?([\w.\-]+) = (.*?) ([a-z][\w\-]*)\((.*?)\)(.*)$"
            if found := re.match(pattern, line):
                root, own, kind, op, operands, attributes = found.groups()
                names = re.findall(r"%([\w.\-]+)", operands)
                each = Instruction(bool(root), own, kind, op, names, attributes)
                self.computations[name][own] = each

    def cost(self, updates: int = 0) -> Cost:
        """Return the cost of the whole program, or of an update if a loop has so many of them."""
        table = self.computations[self.entry]
        loops = [each for each in table.values() if each.op == "while" and each.trips == updates]
        costs = [self._one(each, table) / updates for each in loops] or [self._all(self.entry)]
        return Cost(*max(costs, key=lambda cost: cost[-1]).tolist())

    def _all(self, name: str) -> np.ndarray:
        table = self.computations[name]
        return sum((self._one(each, table) for each in table.values()), np.zeros(4))

    def _one(self, each: Instruction, table: Table) -> np.ndarray:
        if each.op in FREE or each.op.endswith(("-done", "-update")):
            return np.zeros(4)
        is_graphed = each.name in self.graphed
        choice = np.array(Cost(1, 1, 0, 0) if is_graphed else Cost(0, 0, 1, 0))  # of a predicate
        if each.op == "while":
            cost = self._all(each.attribute("body"))
            if each.trips is None or is_graphed:
                cost = cost + self._all(each.attribute("condition")) + choice
            return cost * (each.trips or 1)
        if each.op == "conditional":
            names = re.findall(r"[\w.\-]+", each.attributes.partition("metadata=")[0])
            branches = [self._all(name) for name in names if name in self.computations]
            return max(branches, key=lambda cost: cost[0]) + choice
        if each.op == "call" or (each.op.endswith("-start") and "calls=" in each.attributes):
            return self._all(each.attribute("to_apply") or each.attribute("calls"))
        if each.op == "fusion":
            moved = _fused(self.computations[each.attribute("calls")])
        else:  # a library's workspace is declared as bytes
            kind = each.type.replace("s8[", "scratch[") if each.op == "custom-call" else each.type
            operands = (table[name].type for name in each.operands if name in table)
            moved = _bytes(kind) + sum(map(_bytes, operands))
        return np.array(Cost(1, is_graphed, 0, moved))


def _fused(table: Table) -> float:
    """Bytes of a fusion; slices and updates in place count what they touch."""

    def read(name: str) -> float:
        total, whole = 0.0, _bytes(table[name].type)
        for user in (each for each in table.values() if name in each.operands):
            is_first = user.operands[0] == name
            if is_first and user.op in ("dynamic-slice", "slice", "gather"):
                total += _bytes(user.type)
            elif user.op in ("bitcast", "get-tuple-element"):
                total += read(user.name)
            elif not (is_first and user.op in ("dynamic-update-slice", "scatter")):
                return whole
        return min(total, whole)

    def written(name: str) -> float:
        result = table[name]
        if result.op in ("tuple", "bitcast"):
            return sum(map(written, result.operands))
        if result.op == "dynamic-update-slice":
            return _bytes(table[result.operands[1]].type)
        if result.op == "scatter":
            return 2 * _bytes(table[result.operands[-1]].type)
        return _bytes(result.type)

    parameters = (name for name, each in table.items() if each.op == "parameter")
    roots = (name for name, each in table.items() if each.is_root)
    return sum(map(read, parameters)) + sum(map(written, roots))


def _bytes(kind: str) -> float:
    """The bytes of all arrays in a type."""
    total = 0
    for bits, shape in re.findall(r"\b(?:pred|[a-z]+(\d+))\[([0-9,]*)\]", kind):
        total += max(int(bits or 8) // 8, 1) * math.prod(map(int, filter(None, shape.split(","))))
    return float(total)
