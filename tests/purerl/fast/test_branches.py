import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import fast
from purerl.fast import branches

RAN: list[int] = []


def increment_if(predicate, x):
    def increment(x):
        jax.debug.callback(lambda: RAN.append(1))
        return x + 1.0

    return branches.cond(predicate, increment, lambda x: x, x)


@pytest.fixture(params=["cpu", "cuda"], autouse=True)
def platform(request):
    fast.trace_for(request.param)
    yield
    fast.trace_for(None)


@pytest.mark.parametrize("transform", [lambda f: f, jax.jit])
@pytest.mark.parametrize(
    ("predicates", "ran"),
    [([True, True], True), ([False, False], False), ([True, False], True)],
)
def test_a_batch(predicates, ran, transform):
    RAN.clear()
    x = jnp.array([10.0, 20.0])
    result = transform(jax.vmap(increment_if))(jnp.array(predicates), x)
    jax.effects_barrier()
    np.testing.assert_array_equal(result, x + np.array(predicates))
    assert bool(RAN) == ran


def test_either_of_two_trees():
    trees = {"a": jnp.arange(3.0)}, {"a": -jnp.arange(3.0)}
    for predicate in (True, False):
        found = branches.either(jnp.array(predicate), *trees)
        np.testing.assert_array_equal(found["a"], trees[not predicate]["a"])
    signs = jax.vmap(branches.either, in_axes=(0, None, None))(jnp.array([True, False]), *trees)
    np.testing.assert_array_equal(signs["a"], jnp.stack([each["a"] for each in trees]))


def test_values_and_derivatives_match_jaxs_cond():
    def with_cond(cond):
        def function(predicate, x):
            return cond(predicate, lambda x: jnp.sin(x) * x, lambda x: 2.0 * x, x)

        return jax.vmap(jax.value_and_grad(function, argnums=1))

    arguments = jnp.array([True, False, True]), jnp.array([0.5, 1.0, 2.0])
    found, expected = (with_cond(cond)(*arguments) for cond in (branches.cond, jax.lax.cond))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
