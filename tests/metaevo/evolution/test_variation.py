import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metaevo.evolution import postfix, variation

OPERATIONS = "add", "negate", "clip", "where", "multiply", "tanh"
LENGTH, DRAWS = 12, 2000


def tree(program):
    """A program as nested tuples (code, constant, operands)."""
    stack = []
    for code, constant in zip(*(each.tolist() for each in program), strict=True):
        if code == postfix.BLANK:
            continue
        arity = int(postfix.ARITIES[code])
        operands = tuple(stack[len(stack) - arity :])
        stack = [*stack[: len(stack) - arity], (code, constant, operands)]
    (root,) = stack
    return root


def size(node):
    return 1 + sum(map(size, node[2]))


def subtrees(node):
    return [node, *itertools.chain(*map(subtrees, node[2]))]


def replaced(node, put):
    """All trees in which one subtree is replaced by what `put` returns for it."""
    code, constant, operands = node
    yield from put(node)
    for index, each in enumerate(operands):
        for other in replaced(each, put):
            yield code, constant, (*operands[:index], other, *operands[index + 1 :])


def fitting(trees):
    return {each for each in trees if size(each) <= LENGTH}


def exchanged(own, donor):
    return fitting(replaced(own, lambda _: subtrees(donor)))


def inserted(own, donor):
    def around(node):
        for each in subtrees(donor):
            yield from replaced(each, lambda leaf: [] if leaf[2] else [node])

    return fitting(replaced(own, around))


def hoisted(own, donor):
    return set(subtrees(own))


def changed(own, donor):
    def others(node):
        alike = [each for each in subtrees(donor) if len(each[2]) == len(node[2])]
        return [(code, constant, node[2]) for code, constant, _ in alike or [node]]

    return set(replaced(own, others))


@functools.cache
def programs():
    def draw(key):
        return variation.random_program(key, OPERATIONS, 2, LENGTH, LENGTH)

    found = jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(5), 400))
    return [np.asarray(each) for each in found]


def pairs():
    """Pairs with few results, so that the draws find all of them."""
    codes, constants = programs()
    sizes = (codes > 0).sum(axis=1)
    order = [index for index in range(len(codes)) if 2 <= sizes[index] <= 9]
    return [((codes[i], constants[i]), (codes[j], constants[j])) for i, j in
            zip(order[:8], order[8:16], strict=True)]  # fmt: skip


@pytest.mark.parametrize(
    ("vary", "results"),
    [
        (variation.exchange, exchanged),
        (variation.insert, inserted),
        (lambda key, own, donor: variation.hoist(key, own), hoisted),
        (variation.change, changed),
    ],
    ids=["exchange", "insert", "hoist", "change"],
)
def test_results_match_splicing_in_python(vary, results):
    run = jax.jit(jax.vmap(vary, in_axes=(0, None, None)))
    keys = jax.random.split(jax.random.key(0), DRAWS)
    largest = 0
    for own, donor in pairs():
        codes, constants = map(np.asarray, run(keys, own, donor))
        unique = {(each.tobytes(), other.tobytes()) for each, other in
                  zip(codes, constants, strict=True)}  # fmt: skip
        found = {
            tree((np.frombuffer(each, np.int32), np.frombuffer(other, np.float32)))
            for each, other in unique
        }
        assert len(found) == len(unique)  # blanks only after the end, without constants
        expected = results(tree(own), tree(donor))
        assert found == expected
        largest = max(largest, *map(size, found))
    assert largest <= LENGTH


def levels(node):
    return 1 + max(map(levels, node[2]), default=0)


def test_random_pairs_give_programs_within_their_limits():
    codes, constants = programs()
    half = len(codes) // 2
    own, donor = (codes[:half], constants[:half]), (codes[half:], constants[half:])
    keys = jax.random.split(jax.random.key(1), half)
    for vary in (variation.exchange, variation.insert, variation.change):
        found, numbers = jax.jit(jax.vmap(vary))(keys, own, donor)
        assert np.asarray(jax.vmap(lambda each: postfix.is_valid(each, 2))(found)).all()
        assert not numbers[found != postfix.CONSTANT].any()
        limit = jax.vmap(functools.partial(variation.limited, depth=5))
        kept = limit(own, (found, numbers))
        for before, after, result in zip(
            *(zip(*map(np.asarray, each), strict=True) for each in (own, (found, numbers), kept)),
            strict=True,
        ):
            assert tree(result) == tree(after if levels(tree(after)) <= 5 else before)


def test_only_constants_are_perturbed():
    codes = jnp.array([65, 64, 1, 64, 5, 0], jnp.int32)
    constants = jnp.array([0, 2.0, 0, 0, 0, 0])
    vary = jax.vmap(variation.perturb, in_axes=(0, None, None))
    found, numbers = map(
        np.asarray, vary(jax.random.split(jax.random.key(0), 4000), (codes, constants), 0.1)
    )
    assert (found == codes).all()
    assert (numbers[:, [0, 2, 4, 5]] == 0).all()
    # 2 (1 + 0.1 z) + 0.01 z' and 0.01 z'
    np.testing.assert_allclose(numbers.mean(axis=0)[[1, 3]], [2, 0], atol=0.01)
    np.testing.assert_allclose(numbers.std(axis=0)[[1, 3]], [0.2003, 0.01], rtol=0.05)
