"""Faster equivalents of a few lines of plain JAX, which each file begins with."""

from purerl.fast.switch import use_cpu_arithmetic

__all__ = ["use_cpu_arithmetic"]
