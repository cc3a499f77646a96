"""Random orders of a batch, by sorting words.

In place of

    def permutations(key, count, size):
        keys = jax.random.split(key, count)
        return jax.vmap(lambda key: jax.random.permutation(key, size))(keys)

The distribution is the same, but the random numbers are not.
"""

import jax
import jax.numpy as jnp

RANDOM_BITS = 16
"""Minimum number of random bits in a word."""


def permutations(key: jax.Array, count: int, size: int) -> jax.Array:
    """Return random orders of 0, 1, ..., size - 1: [count, size] int32.

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
