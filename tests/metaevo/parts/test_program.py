import functools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metaevo.config import ConfigError
from metaevo.evolution import genetic, postfix, variation
from metaevo.evolution.evosax import StrategyConfig
from metaevo.parts import formula, interpreter, languages, program
from metaevo.parts.expressions import compiled, parse
from metaevo.parts.expressions import program_text as text
from metaevo.parts.languages import LANGUAGES
from metaevo.studies.study import Study
from purerl import ppo
from purerl.types import Context
from tests.metaevo.evolving import settings_of

ALL = tuple(postfix.OPERATIONS)
NAMES = ["x", "y"]
LENGTH, DEPTH = 16, 8
CONTEXT = Context(ppo.Hyperparams(), progress=jnp.float32(0.25), num_updates=8)


def read(expression):
    return compiled(parse(expression, NAMES, {}), NAMES, length=24)


@pytest.fixture(scope="module")
def drawn():
    def one(key):
        return variation.random_program(key, ALL[:-1], len(NAMES), LENGTH, DEPTH)

    found = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(1), 256))
    return tuple(map(np.asarray, found))


@pytest.fixture(scope="module")
def value_and_slope():
    """Of programs [N, L] at points x, y [S], as [N, S], with the derivative by x."""

    def evaluate(program, inputs, number):
        return interpreter.evaluate(ALL, program, (inputs["x"], inputs["y"]))

    rule = languages.Rule(frozenset(NAMES), evaluate, forward=True)
    loss = languages.differentiable(rule, lambda x, others: {"x": x, "y": others["y"]})

    def at(codes, constants, x, y):
        return jax.value_and_grad(loss)(x, {"meta_params": (codes, constants), "y": y})

    over_points = jax.vmap(at, in_axes=(None, None, 0, 0))
    return jax.jit(jax.vmap(over_points, in_axes=(0, 0, None, None)))


def test_random_programs_equal_their_formulas(drawn, value_and_slope):
    rng = np.random.default_rng(0)
    # Not close to zero: a small divisor magnifies the rounding of what saturates, such as tanh.
    x, y = (rng.choice([-1, 1], (2, 40)) * rng.uniform(0.3, 2.5, (2, 40))).astype(np.float32)
    values, slopes = map(np.asarray, value_and_slope(*drawn, x, y))
    compared = 0
    for index in range(0, 256, 20):
        written = text(drawn[0][index], drawn[1][index], NAMES)
        try:
            expression = parse(written, NAMES, {})
        except ValueError:  # for a constant part without a finite value, which a program limits
            continue

        def at(x, y, expression=expression):
            return expression.evaluate({"x": x, "y": y}) * jnp.ones_like(x)

        expected, pull = jax.vjp(lambda x: at(x, y), x)
        expected_slope = np.asarray(pull(jnp.ones_like(x))[0])
        expected = np.asarray(expected)
        known = np.isfinite(expected) & np.isfinite(expected_slope)
        known &= (abs(expected) < 1e3) & (abs(expected_slope) < 1e3)
        compared += known.sum()
        np.testing.assert_allclose(values[index][known], expected[known], rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(
            slopes[index][known], expected_slope[known], rtol=1e-5, atol=1e-6, err_msg=written
        )
    assert compared > 150


@pytest.mark.parametrize("replaced", ["divide", "add"])
def test_values_and_derivatives_are_finite_everywhere(replaced, drawn, value_and_slope):
    codes, constants = drawn
    codes = np.where(codes == postfix.code_of(replaced), postfix.code_of("power"), codes)
    points = np.array([0, 1e-38, -1e-12, 1e-6, -1, 30, -1e9, 3e38], np.float32)
    x, y = (each.ravel() for each in np.meshgrid(points, points[[0, 2, 4, 5, 7]]))
    values, slopes = value_and_slope(codes, constants, x, y)
    assert np.isfinite(values).all()
    assert np.isfinite(slopes).all()


@pytest.mark.parametrize(
    ("expression", "function"),
    [
        ("x", lambda x, y: x),
        ("0.5", lambda x, y: 0.5 + 0 * x),
        ("-x ** 5 / y", lambda x, y: -(x**5) / y),
        ("abs(x) ** 0.3 - x ** -2", lambda x, y: abs(x) ** 0.3 - x**-2.0),
        ("y ** x", lambda x, y: y**x),
        ("clip(x, -0.5, y)", lambda x, y: np.clip(x, -0.5, y)),
        ("where(x > y, x, 2) + where(x < y, 3, x)",
         lambda x, y: np.where(x > y, x, 2) + np.where(x < y, 3, x)),
        ("where(x >= x, y, 0) + where(y <= y, x, 0)", lambda x, y: x + y),
        ("where(x > x, 5, 0) + where(x < x, 5, 0)", lambda x, y: 0 * x),
        ("minimum(sign(x), log1p(y)) * maximum(exp(x), sqrt(y))",
         lambda x, y: np.minimum(np.sign(x), np.log1p(y)) * np.maximum(np.exp(x), np.sqrt(y))),
    ],
)  # fmt: skip
def test_programs_are_compiled_from_text(expression, function, value_and_slope):
    codes, constants = read(expression)
    assert not codes[LENGTH:].any()  # as long as the random programs: nothing is compiled anew
    x = np.linspace(-2, 2, 40).astype(np.float32)
    y = np.full_like(x, 0.7)
    value, _ = value_and_slope(
        *(np.tile(each[:LENGTH], (256, 1)) for each in (codes, constants)), x, y
    )
    np.testing.assert_allclose(value[0], function(x, y), rtol=2e-6, atol=1e-6)
    again = read(text(codes, constants, NAMES))
    assert [each.tolist() for each in again] == [codes.tolist(), constants.tolist()]


def test_random_programs_keep_their_limits(drawn):
    codes, constants = drawn
    assert np.asarray(jax.vmap(lambda each: postfix.is_valid(each, 2))(codes)).all()
    assert not np.asarray(jax.vmap(lambda each: postfix.is_valid(each, 1))(codes)).all()
    heights = np.asarray(jax.vmap(postfix.height)(codes))
    sizes = (codes > 0).sum(axis=1)
    assert heights.max() == DEPTH
    assert set(sizes) == set(range(1, LENGTH + 1))
    every = {postfix.code_of(name) for name in ALL[:-1]} | {postfix.CONSTANT, 65, 66}
    assert set(codes[codes > 0]) == every
    assert (constants[codes != postfix.CONSTANT] == 0).all()


@pytest.mark.parametrize("codes", [[], [1], [65, 65], [65, 1, 65], [67], [63], [-1], [65, 40]])
def test_invalid_codes_evaluate_to_nan(codes, value_and_slope):
    codes = np.array([*codes, *[0] * (LENGTH - len(codes))], np.int32)
    x = np.ones(40, np.float32)
    value, _ = value_and_slope(np.tile(codes, (256, 1)), np.ones((256, LENGTH), np.float32), x, x)
    assert np.isnan(value).all()


def meta_params_of(*programs):
    codes, constants = zip(*programs, strict=True)
    return {"codes": jnp.stack(codes), "constants": jnp.stack(constants)}


def test_a_schedule():
    part = program.Program("schedule", hyperparams=("learning_rate", "gae_lambda"))
    meta_params = meta_params_of(part.compiled("1 - 0.5 * progress"), part.compiled("2"))
    changed = jax.jit(part.apply)(meta_params, CONTEXT)
    given = CONTEXT.hyperparams
    assert changed.learning_rate == pytest.approx(0.875 * given.learning_rate)
    assert changed.gae_lambda == 1.0  # of a fraction
    assert part.text(meta_params) == "learning_rate: 1.0 - 0.5 * progress; gae_lambda: 2.0"


def test_the_step_of_an_optimizer():
    part = program.Program("make_optimizer", inputs=("mean_9", "value"), length=8)
    written = formula.Formula("make_optimizer", "mean_9 + tanh(value)", {})
    params = {"params": {"actor_torso": jnp.ones((2, 3)), "value_head": jnp.ones(4)}}

    def step(part, meta_params):
        made = part.apply(meta_params, CONTEXT)
        return made.update(params, made.init(params), params, context=CONTEXT)[0]

    found = step(part, meta_params_of(part.compiled(written.expression)))
    expected = step(written, {"relative": {}})
    jax.tree.map(lambda *each: np.testing.assert_allclose(*each, rtol=1e-6), found, expected)


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"inputs": ["eror"]}, "inputs: 'eror'"),
        ({"inputs": ["error", "error"]}, "inputs: must name each once"),
        ({"operations": ["tan"]}, "'tan'"),
        ({"length": 0}, "length"),
        ({"start": ["error +"]}, "start = 'error \\+'"),
        ({"start": ["import os"]}, "start = 'import os'"),
        ({"start": ["error ** 2 + error"], "length": 3}, "has 4 codes; at most 3"),
        ({"start": ["abs(abs(abs(error)))"], "depth": 3}, "at most 3"),
        ({"start": ["huber"]}, "needs gives = 'slope'"),
        ({"start": ["error ** error"]}, "needs power, not among operations"),
        ({"hyperparams": []}, "hyperparams"),
        ({"slot": "schedule", "gives": "slope"}, "gives = 'slope'"),
    ],
)
def test_settings_that_are_refused(config, key):
    raw = {"evolve": "program", "learner": "ppo", "component": config}
    with pytest.raises(ConfigError, match=key) as caught:
        settings_of(raw)
    assert "\n" not in str(caught.value)


def test_a_strategy_that_perturbs_is_refused():
    raw = {"evolve": "program", "learner": "q_learning", "task": {"env": "GridWorld"}}
    settings = settings_of(raw)
    assert settings.strategy.algorithm == "genetic_programming"
    study = Study(settings.build(), replace(settings, strategy=StrategyConfig()))
    with pytest.raises(ConfigError, match=r"'codes'.*genetic_programming"):
        study.check()


@functools.cache
def fingerprint_of(config):
    return jax.jit(jax.vmap(config.fingerprint))


def fingerprints(config, *expressions):
    programs = [config.compiled(each) for each in expressions]
    codes, constants = (np.stack(each)[:, np.newaxis] for each in zip(*programs, strict=True))
    return np.asarray(fingerprint_of(config)({"codes": codes, "constants": constants}))


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
    assert genetic.is_same(first, second)
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
    assert genetic.is_useful(outputs).tolist() == [True, False, False]
    no_program = {"codes": jnp.full((1, 24), 3), "constants": jnp.zeros((1, 24))}
    for gives in ("value", "slope"):
        config = program.Program("policy_loss", gives=gives, operations=("add",))
        assert not genetic.is_useful(config.fingerprint(no_program))


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
    assert genetic.is_same(*pair) == genetic.is_same(*pair[::-1]) == same
