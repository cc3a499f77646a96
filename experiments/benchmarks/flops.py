"""Floating-point operations: those that a program needs, and those that the machine can do.

XLA's cost analysis counts the body of a loop once, however often it runs (a test holds it to that).
So a program's operations are XLA's count of it, plus XLA's count of every scan's body times the
rounds that are missing. Every element that an operation computes counts as one, also integers';
a product of matrices counts two for each multiplication and addition.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Measure = Callable[[int], dict[str, float]]

SIDE = 1024
"""rows and columns of the matrices on a CPU"""
ACCELERATOR_SIDE = 8192
"""the same on an accelerator, which needs larger ones to be busy"""
PRODUCTS = 8
"""of one measurement"""


def count(f: Callable[..., Any], *arguments: Any) -> float:
    """Return the operations of `f(*arguments)`; a `while` loop of unknown length counts once."""
    import jax

    with _usual_arithmetic():  # a function of its own, or JAX may take what it has traced before
        closed = jax.make_jaxpr(lambda *arguments: f(*arguments))(*arguments)
    return _by_xla(closed.jaxpr, closed.consts) + _missing(closed.jaxpr)


@contextmanager
def _usual_arithmetic() -> Iterator[None]:
    """Have `purerl` trace JAX's own tanh: what is inside is not among the operations needed."""
    from purerl.fast import switch

    was_in_use = switch.in_use()
    switch.use_cpu_arithmetic(False)
    try:
        yield
    finally:
        switch.use_cpu_arithmetic(was_in_use)


def _missing(jaxpr: Any) -> float:
    """Operations of a jaxpr that XLA's analysis leaves out: all rounds of its scans but one."""
    total = 0.0
    for equation in jaxpr.eqns:
        inner = sum(_missing(body) for body in _bodies(equation))
        if equation.primitive.name == "scan":
            rounds = equation.params["length"]
            (body,) = _bodies(equation)
            inner = (rounds - 1) * _by_xla(body) + rounds * inner
        total += inner
    return total


def _bodies(equation: Any) -> Iterator[Any]:
    """The jaxprs inside an equation: of loops, branches and nested functions."""
    for value in equation.params.values():
        for each in value if isinstance(value, tuple | list) else (value,):
            each = getattr(each, "jaxpr", each)  # a closed one
            if hasattr(each, "eqns"):
                yield each


def _by_xla(jaxpr: Any, consts: Any = None) -> float:
    """XLA's count, every loop's body once."""
    import jax

    def f(consts, inputs):
        return jax.core.eval_jaxpr(jaxpr, consts, *inputs)

    shapes = [[jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in variables]
              for variables in (jaxpr.constvars, jaxpr.invars)]  # fmt: skip
    costs: Any = jax.jit(f).lower(*shapes).cost_analysis()
    return float(costs.get("flops", 0.0))


def matrix_products() -> tuple[Measure, dict[str, Any]]:
    """What the machine can do: float32 products of square matrices, on all devices at once."""
    from metaevo.evolution import devices

    devices.setup()
    import jax
    import jax.numpy as jnp

    count = len(jax.devices())
    side = SIDE if jax.devices()[0].platform == "cpu" else ACCELERATOR_SIDE

    def multiply(matrix):
        return jax.lax.fori_loop(0, PRODUCTS, lambda _, product: matrix @ product, matrix)

    compiled = devices.spread(multiply)
    # The spectral radius of a matrix of ones is its side: products neither grow nor vanish.
    matrix = devices.replicate(jnp.full((side, side), 1.0 / side))

    def measure(repeat):
        start, cpu = time.perf_counter(), time.process_time()
        jax.block_until_ready(compiled(matrix))
        seconds = time.perf_counter() - start
        return {
            "seconds": seconds,
            "cpu_seconds": time.process_time() - cpu,
            "amount": 2.0 * side**3 * PRODUCTS * count,
        }

    return measure, {"layout": f"{count} devices, {side} x {side} float32"}


WORKERS: dict[str, Callable[..., tuple[Measure, dict[str, Any]]]] = {
    "matrix_products": matrix_products,
}
