"""Faster equivalents of a few lines of plain JAX, which each file begins with."""

from purerl.fast.switch import trace_for, use_cpu_arithmetic

__all__ = ["trace_for", "use_cpu_arithmetic"]
