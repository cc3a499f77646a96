"""Random numbers: JAX's without its loop on CPUs, and orders of a batch from sorted words."""

import functools
import math
from collections.abc import Callable, Hashable
from typing import ParamSpec, TypeVar

import jax
import jax.numpy as jnp
from jax.extend.random import define_prng_impl

from purerl.types import PyTree

RANDOM_BITS = 16
"""Minimum number of random bits in a word of `permutations`."""
ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
PARITY = 0x1BD11BDA
STRAIGHT = jax.__version_info__ < (0, 11)
"""Whether XLA compiles straight-line code well."""

P = ParamSpec("P")
R = TypeVar("R")


def with_fast_draws(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function so that it draws the same random numbers faster, bit for bit.

    The plain equivalent returns `function`. On a CPU, JAX compiles every draw to a loop of five
    rounds with a dozen tiny programs in its body. In a scan over environment steps, such loops take
    longer than the environment, and much of the compile time. Use this for small draws only: with
    straight-line code, a population of candidates did not compile within minutes.

    Keys in its arguments are `unrolled`; keys in its result are converted back.
    """

    @functools.wraps(function)
    def drawing_fast(*args: P.args, **kwargs: P.kwargs) -> R:
        args, kwargs = jax.tree.map(unrolled, (args, kwargs))
        rolled = lambda leaf: _convert(leaf, _IMPLEMENTATION, "threefry2x32")  # noqa: E731
        return jax.tree.map(rolled, function(*args, **kwargs))

    return drawing_fast


def unrolled(leaf: PyTree) -> PyTree:
    """Return keys [...] that draw the same numbers with straight code; everything else as it is.

    Keys of other generators than JAX's default (threefry2x32) come back as they are, and with jax
    0.11 or later all keys: its XLA did not compile DQN with straight code. Splits are unrolled too.
    """
    return _convert(leaf, "threefry2x32", _IMPLEMENTATION) if STRAIGHT else leaf


def _convert(leaf: PyTree, before: Hashable, after: Hashable) -> PyTree:
    is_key = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    if not is_key or jax.random.key_impl(leaf) != before:
        return leaf
    return jax.random.wrap_key_data(jax.random.key_data(leaf), impl=after)


@jax.jit
def hash_2x32(key: jax.Array, high: jax.Array, low: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Threefry-2x32 with 20 rounds (Salmon et al. 2011, "Parallel Random Numbers", section 3.3).

    Map counters of two words [...] uint32 to two words [...], by a key [2] uint32.
    """
    words = key[0], key[1], key[0] ^ key[1] ^ jnp.uint32(PARITY)
    x, y = high + words[0], low + words[1]
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            x = x + y
            y = (y << rotation) | (y >> (32 - rotation))
            y = x ^ y
        x = x + words[(group + 1) % 3]
        y = y + words[(group + 2) % 3] + jnp.uint32(group + 1)
    return x, y


def _counters(shape: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    """The numbers 0, 1, ... in two words each."""
    count = math.prod(shape)
    if count > 2**32:  # they would repeat
        raise ValueError(f"{count} numbers in one draw are more than 2^32")
    low = jnp.arange(count, dtype=jnp.uint32).reshape(shape)
    return jnp.zeros_like(low), low


def _seed(seed: jax.Array) -> jax.Array:
    return jax.random.key_data(jax.random.key(seed, impl="threefry2x32"))


def _split(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return jnp.stack(hash_2x32(key, *_counters(shape)), axis=-1)


def _fold_in(key: jax.Array, data: int) -> jax.Array:
    return jnp.stack(hash_2x32(key, jnp.uint32(0), jnp.asarray(data).astype(jnp.uint32)))


def _random_bits(key: jax.Array, bit_width: int, shape: tuple[int, ...]) -> jax.Array:
    x, y = hash_2x32(key, *_counters(tuple(shape)))
    if bit_width == 64:
        return (x.astype(jnp.uint64) << 32) | y.astype(jnp.uint64)
    return (x ^ y).astype(f"uint{bit_width}")


_IMPLEMENTATION = define_prng_impl(
    key_shape=(2,),
    seed=_seed,
    split=_split,
    random_bits=_random_bits,
    fold_in=_fold_in,
    name="threefry2x32_unrolled",
    tag="fryu",
)


def permutations(key: jax.Array, count: int, size: int) -> jax.Array:
    """Return random orders of 0, 1, ..., size - 1: [count, size] int32.

    They have the distribution of this, but are other numbers:

        keys = jax.random.split(key, count)
        jax.vmap(lambda key: jax.random.permutation(key, size))(keys)

    A random number and its index share a word, because on a CPU XLA sorts words five times as fast
    as pairs. If two numbers are equal, the smaller index comes first. This happens to a share of
    `size` x 2^-bits of the numbers, with bits = 32 - log2(size).
    """
    index_bits = max(size - 1, 1).bit_length()
    if index_bits > 32 - RANDOM_BITS:
        keys = jax.random.split(key, count)
        return jax.vmap(lambda key: jax.random.permutation(key, size))(keys).astype(jnp.int32)
    words = jax.random.bits(key, (count, size), jnp.uint32) >> index_bits << index_bits
    words = words | jax.lax.broadcasted_iota(jnp.uint32, words.shape, 1)
    order = jax.lax.sort(words, dimension=1, is_stable=False) & jnp.uint32(2**index_bits - 1)
    return order.astype(jnp.int32)
