import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metaevo.parts import languages, program
from metaevo.parts.languages import LANGUAGES


@functools.cache
def compiled(config):
    return jax.jit(jax.vmap(config.fingerprint))


def fingerprints(config, *expressions):
    programs = [config.compiled(each) for each in expressions]
    codes, constants = (np.stack(each)[:, np.newaxis] for each in zip(*programs, strict=True))
    return np.asarray(compiled(config)({"codes": codes, "constants": constants}))


def test_the_fingerprint_of_a_loss_is_its_slope():
    config = program.Program(slot="value_loss")
    squared, with_progress = fingerprints(config, "error ** 2", "progress * error * change")
    at = LANGUAGES["value_loss"].batch()
    error = at["prediction"] - at["target"]
    change = at["prediction"] - at["old_prediction"]
    np.testing.assert_allclose(squared, 2 * error, rtol=1e-5)
    np.testing.assert_allclose(with_progress, at["progress"] * (error + change), 1e-4, 1e-6)


def test_a_program_that_gives_the_slope_has_the_same_fingerprint_as_its_loss():
    slope = program.Program(slot="policy_loss", gives="slope")
    value = program.Program(slot="policy_loss")
    first, length = fingerprints(slope, "log_ratio * advantage - ratio * advantage", "length")
    (second,) = fingerprints(value, "log_ratio ** 2 * advantage / 2 - ratio * advantage")
    assert languages.is_same(first, second)
    np.testing.assert_allclose(length, LANGUAGES["policy_loss"].batch()["length"], rtol=1e-5)


def test_a_schedule_has_a_fingerprint_of_each_program():
    both = ("learning_rate", "gamma")
    config = program.Program("schedule", operations=("subtract",), hyperparams=both, length=4)
    pairs = zip(config.compiled("1 - progress"), config.compiled("0.5"), strict=True)
    codes, constants = map(jnp.stack, pairs)
    found = config.fingerprint({"codes": codes, "constants": constants})
    progress = LANGUAGES["schedule"].batch()["progress"]
    np.testing.assert_allclose(found, [*(1 - progress), *np.full(languages.POINTS, 0.5)], 1e-5)


@pytest.mark.parametrize("slot", LANGUAGES)
def test_every_input_varies_over_the_batch_is_finite_and_may_be_in_a_program(slot):
    drawn = jax.eval_shape(program.Program(slot, length=8).init, jax.random.key(0))
    assert drawn["codes"].shape == (1, 8)
    at = LANGUAGES[slot].batch()
    for name, values in at.items():
        assert values.shape == (languages.POINTS,), name
        assert np.isfinite(values).all(), name
        assert len(np.unique(values)) > 1, name


def test_validity():
    config = program.Program(slot="policy_loss")
    outputs = fingerprints(config, "-ratio * advantage", "advantage ** 2", "sign(log_ratio)")
    assert languages.is_valid(outputs).tolist() == [True, False, False]
    no_program = {"codes": jnp.full((1, 24), 3), "constants": jnp.zeros((1, 24))}
    for gives in ("value", "slope"):
        config = program.Program("policy_loss", gives, operations=("add",))
        assert not languages.is_valid(config.fingerprint(no_program))


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("log_ratio + ratio", "ratio + log_ratio", True),
        ("ratio * advantage", "advantage * exp(log_ratio)", True),
        ("ratio * advantage", "ratio * advantage + 3", True),  # the same slope
        ("ratio * advantage", "1.0001 * ratio * advantage", False),
        ("(ratio + 1) ** 2 * advantage", "(ratio ** 2 + 2 * ratio + 1) * advantage", True),
        ("ratio * advantage", "minimum(ratio, 1.2) * advantage", False),
        ("ratio * advantage", "clip(ratio, 0, 1000) * advantage", True),
        ("log_ratio", "log_ratio + length * ratio", False),
    ],
)
def test_duplicates(first, second, same):
    config = program.Program(slot="policy_loss")
    pair = fingerprints(config, first, second)
    assert languages.is_same(*pair) == languages.is_same(*pair[::-1]) == same
