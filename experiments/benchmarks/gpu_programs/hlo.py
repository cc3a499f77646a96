"""Costs of an optimised GPU program, read from its text: kernels, bytes, host round trips.

A kernel takes max(launch, bytes / bandwidth, products / their rate) seconds. A loop costs its body
times its trips. A loop with an unknown number of trips, or a conditional, also waits for the host.
In a CUDA graph neither does, but each iteration evaluates the condition of its loop and passes it
to the graph.
"""

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from purerl.fast.kernels import NARROWEST

LAUNCH_SECONDS = 2e-6
"""Time from one kernel to the next inside a stream, if the kernel itself is short."""
SYNC_SECONDS = 10e-6
"""Time of a round trip to the host, which reads a predicate before it launches the next kernel."""

PRODUCTS_PER_SECOND = 20e12
"""Multiplications of matrices, each with an addition, by small products of TF32 and by the kernels
of `purerl.fast.perceptron`; those take 18e12 to 26e12 on an H200."""

BYTES = {
    **dict.fromkeys(("pred", "s8", "u8", "s4", "u4"), 1),
    **dict.fromkeys(("s16", "u16", "f16", "bf16"), 2),
    **dict.fromkeys(("s32", "u32", "f32"), 4),
    **dict.fromkeys(("s64", "u64", "f64", "c64"), 8),
}
FREE = {
    *("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "opt-barrier"),
    *("after-all", "add-dependency", "domain", "get-dimension-size"),
    *("partition-id", "replica-id"),
}
"""Instructions without a kernel."""


@dataclass(frozen=True)
class Cost:
    """The cost of a part of a program."""

    launches: float = 0.0
    """kernels"""
    bytes: float = 0.0
    """read and written"""
    syncs: float = 0.0
    """waits for the host"""
    graphed: float = 0.0
    """kernels inside CUDA graphs"""
    seconds: float = 0.0
    """estimated"""

    def __add__(self, other: "Cost") -> "Cost":
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Cost(*(a + b for a, b in pairs))

    def __mul__(self, times: float) -> "Cost":
        return Cost(*(times * each for each in vars(self).values()))


@dataclass(frozen=True)
class Loop:
    """A loop of a program."""

    scope: str
    """the scopes and primitives that it was traced in, such as jit(many)/vmap(rollout)/while"""
    trips: int | None
    """number of iterations, None if the device decides it"""
    body: "Part"
    """one iteration"""


@dataclass
class Part:
    """A computation: the cost of its own kernels, and its loops."""

    own: Cost = field(default_factory=Cost)
    loops: list[Loop] = field(default_factory=list)

    @property
    def total(self) -> Cost:
        """Cost with all loops; a loop of unknown length counts once."""
        return sum((loop.body.total * (loop.trips or 1) for loop in self.loops), self.own)

    def find(self, scope: str) -> Iterator[Loop]:
        """Yield the outermost loops that were traced in a named scope."""
        for loop in self.loops:
            if re.search(rf"\b{scope}\b", loop.scope):
                yield loop
            else:
                yield from loop.body.find(scope)


class _Instruction(NamedTuple):
    name: str
    type: str
    op: str
    operands: list[str]
    attributes: str
    is_root: bool

    def attribute(self, name: str) -> str:
        """The computation that an attribute names, or an empty string."""
        found = re.search(rf"\b{name}=%?([\w.\-]+)", self.attributes)
        return found.group(1) if found else ""


class Program:
    """An optimised program for one GPU."""

    def __init__(self, text: str, bandwidth: float, graphed: Set[str] = frozenset()):
        """Parse the program.

        Args:
            text: of the optimised module, `compiled.as_text()`.
            bandwidth: of the GPU's memory, bytes per second.
            graphed: names of the instructions inside CUDA graphs.
        """
        self.bandwidth, self.graphed = bandwidth, graphed
        self.computations: dict[str, dict[str, _Instruction]] = {}
        self.entry = ""
        for name, is_entry, instructions in _computations(text):
            self.computations[name] = {each.name: each for each in instructions}
            self.entry = name if is_entry else self.entry

    @property
    def whole(self) -> Part:
        """The whole program."""
        return self._part(self.entry)

    def instructions(self) -> Iterator[_Instruction]:
        """Yield all instructions, those inside fusions too."""
        for computation in self.computations.values():
            yield from computation.values()

    def _part(self, name: str) -> Part:
        table = self.computations[name]
        part = Part()
        for each in table.values():
            if each.op in FREE or each.op.endswith(("-done", "-update")):
                continue
            if each.op == "while":
                part.loops.append(self._loop(each))
            elif each.op == "conditional":
                part.own += self._conditional(each)
            elif each.op == "call" or (each.op.endswith("-start") and "calls=" in each.attributes):
                called = self._part(each.attribute("to_apply") or each.attribute("calls"))
                part.own += called.own
                part.loops += called.loops
            else:
                part.own += self._kernel(each, table)
        return part

    def _loop(self, each: _Instruction) -> Loop:
        trips = re.search(r'"known_trip_count":\{"n":"(\d+)"', each.attributes)
        body = self._part(each.attribute("body"))
        if trips is None or each.name in self.graphed:
            body.own += self._part(each.attribute("condition")).own + self._choice(each)
        scope = re.search(r'op_name="([^"]*)"', each.attributes)
        return Loop(scope.group(1) if scope else "", int(trips.group(1)) if trips else None, body)

    def _conditional(self, each: _Instruction) -> Cost:
        """The cost of the most expensive branch, and of choosing it."""
        listed = re.search(r"branch_computations=\{([^}]*)\}", each.attributes)
        pattern = r"(?:true|false)_computation=%?([\w.\-]+)"
        names = (
            re.findall(r"%?([\w.\-]+)", listed.group(1))
            if listed
            else re.findall(pattern, each.attributes)
        )
        branches = [self._part(name).total for name in names]
        most = max(branches, key=lambda cost: cost.launches)
        return most + self._choice(each)

    def _choice(self, each: _Instruction) -> Cost:
        """The cost of a predicate, which a kernel passes to the graph, or the host reads."""
        if each.name in self.graphed:
            return Cost(launches=1, graphed=1, seconds=LAUNCH_SECONDS)
        return Cost(syncs=1, seconds=SYNC_SECONDS)

    def _kernel(self, each: _Instruction, table: dict[str, _Instruction]) -> Cost:
        if each.op == "fusion":
            moved = self._fusion(each)
        else:
            scratch = each.op == "custom-call"  # a library's workspace is declared as bytes
            moved = sum(_bytes(table[name].type) for name in each.operands if name in table)
            moved += sum(size for kind, size in _arrays(each.type) if not scratch or kind != "s8")
        products = self._products(each, table) / PRODUCTS_PER_SECOND
        seconds = max(LAUNCH_SECONDS, moved / self.bandwidth, products)
        graphed = each.name in self.graphed
        return Cost(launches=1, bytes=moved, graphed=graphed, seconds=seconds)

    def _products(self, each: _Instruction, table: dict[str, _Instruction]) -> float:
        """Multiplications of matrices in a kernel."""
        if each.op == "fusion":
            inside = self.computations[each.attribute("calls")]
            dots = [part for part in inside.values() if part.op == "dot"]
            return sum(_multiplications(dot, inside) for dot in dots)
        if "xla.gpu.triton" in each.attributes:
            return _of_perceptron(each, [_shape(table[name].type) for name in each.operands])
        return _multiplications(each, table) if each.op == "dot" else 0.0

    def _fusion(self, each: _Instruction) -> float:
        """Bytes of a fusion; slices and updates in place count what they touch."""
        table = self.computations[each.attribute("calls")]
        users: dict[str, list[tuple[_Instruction, int]]] = defaultdict(list)
        for user in table.values():
            for position, name in enumerate(user.operands):
                users[name].append((user, position))

        def read(name: str) -> float:
            total, whole = 0.0, _bytes(table[name].type)
            for user, position in users[name]:
                if position == 0 and user.op in ("dynamic-slice", "slice", "gather"):
                    total += _bytes(user.type)
                elif position == 0 and user.op in ("dynamic-update-slice", "scatter"):
                    continue
                elif user.op in ("bitcast", "get-tuple-element"):
                    total += read(user.name)
                else:
                    return whole
            return min(total, whole)

        def written(name: str) -> float:
            result = table[name]
            if result.op == "tuple":
                return sum(written(operand) for operand in result.operands)
            if result.op == "bitcast":
                return min(written(result.operands[0]), _bytes(result.type))
            if result.op == "dynamic-update-slice":
                return _bytes(table[result.operands[1]].type)
            if result.op == "scatter":
                return 2 * _bytes(table[result.operands[-1]].type)
            return _bytes(result.type)

        moved = sum(read(name) for name, part in table.items() if part.op == "parameter")
        return moved + sum(written(name) for name, part in table.items() if part.is_root)


_HEAD = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{\s*$")
_LINE = re.compile(r"^\s+(ROOT )?%?([\w.\-]+) = (.*)$")


def _computations(text: str) -> Iterator[tuple[str, bool, list[_Instruction]]]:
    """Yield the name of each computation, whether it is the entry, and its instructions."""
    head: re.Match[str] | None = None
    instructions: list[_Instruction] = []
    for line in text.splitlines():
        if head is None:
            head, instructions = _HEAD.match(line), []
        elif line.startswith("}"):
            yield head.group(2), bool(head.group(1)), instructions
            head = None
        elif found := _LINE.match(line):
            instructions.append(_instruction(found))


def _instruction(line: re.Match[str]) -> _Instruction:
    kind, rest = _until_space(line.group(3))
    op, _, rest = rest.partition("(")
    end = _closing(rest)
    operands = re.findall(r"%([\w.\-]+)", rest[:end])
    return _Instruction(line.group(2), kind, op.strip(), operands, rest[end:], bool(line.group(1)))


def _until_space(text: str) -> tuple[str, str]:
    """Split a type, which may be a tuple, from what follows."""
    end = _closing(text[1:]) + 2 if text.startswith("(") else text.index(" ")
    return text[:end], text[end:].strip()


def _closing(text: str) -> int:
    """The position of the parenthesis that closes one before the text."""
    depth = 1
    for position, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return position
    raise ValueError(f"no closing parenthesis in {text[:80]!r}")


def _shape(kind: str) -> list[int]:
    return [int(size) for size in kind[kind.index("[") + 1 : kind.index("]")].split(",") if size]


def _multiplications(dot: _Instruction, table: dict[str, _Instruction]) -> float:
    """Multiplications of a product of two arrays."""
    summed = re.search(r"lhs_contracting_dims=\{([0-9,]*)\}", dot.attributes)
    assert summed is not None, dot
    shape = _shape(table[dot.operands[0]].type)
    sizes = [shape[int(index)] for index in summed.group(1).split(",")]
    return float(math.prod(_shape(dot.type)) * math.prod(sizes))


def _of_perceptron(each: _Instruction, shapes: list[list[int]]) -> float:
    """Multiplications of a kernel of `purerl.fast.perceptron`, 0 for others.

    Its operands are matrices [agents, in, out], each with biases [agents, out], then the inputs
    [agents, rows, in]. Backwards, it has several results: the activations, computed again, and the
    gradients of matrices and of inputs.
    """
    pairs = list(itertools.takewhile(_are_layer, zip(shapes[::2], shapes[1::2], strict=False)))
    if not pairs:
        return 0.0
    agents, rows, _ = shapes[2 * len(pairs)]
    sizes = sum(math.prod(matrix[1:]) for matrix, _ in pairs)
    return float(agents * max(rows, NARROWEST) * sizes * (3 if each.type.startswith("(") else 1))


def _are_layer(pair: tuple[list[int], list[int]]) -> bool:
    matrix, biases = pair
    return len(matrix) == 3 and matrix[::2] == biases


def _arrays(kind: str) -> list[tuple[str, float]]:
    """The element type and the bytes of every array in a type."""
    arrays = []
    for name, dimensions in re.findall(r"\b([a-z]+[0-9a-z]*)\[([0-9,]*)\]", kind):
        count = math.prod(int(size) for size in dimensions.split(",") if size)
        arrays.append((name, float(BYTES.get(name, 0) * count)))
    return arrays


def _bytes(kind: str) -> float:
    return sum(size for _, size in _arrays(kind))
