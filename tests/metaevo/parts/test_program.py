"""Programs: what they compute, against formulas; their text, random programs, refusals."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metaevo.config import ConfigError
from metaevo.evolution import growth, postfix
from metaevo.evolution.evosax import StrategyConfig
from metaevo.parts import formula, interpreter, program
from metaevo.parts.expressions import parse
from metaevo.parts.formula import HAND_WRITTEN
from metaevo.parts.program_text import compiled, text
from metaevo.studies.study import Study
from purerl import ppo
from purerl.types import Context
from tests.metaevo.evolving import settings_of

ALL = tuple(postfix.OPERATIONS)
NAMES = ["x", "y"]
LENGTH, DEPTH = 16, 8
CONTEXT = Context(ppo.Hyperparams(), progress=jnp.float32(0.25), num_updates=8)


def read(expression, length=24):
    return compiled(parse(expression, NAMES, {}), NAMES, length=length)


@pytest.fixture(scope="module")
def drawn():
    def one(key):
        return growth.random_program(key, ALL[:-1], len(NAMES), LENGTH, DEPTH)

    found = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(1), 256))
    return tuple(map(np.asarray, found))


@pytest.fixture(scope="module")
def value_and_slope():
    """Of programs [N, L] at points x, y [S], as [N, S], with the derivative by x."""
    loss = interpreter.differentiable(
        ALL, lambda others: others["program"], lambda x, others: (x, others["y"])
    )

    def at(codes, constants, x, y):
        return jax.value_and_grad(loss)(x, {"program": (codes, constants), "y": y})

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
        expression = parse_or_none(written)
        if expression is None:
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


def parse_or_none(written):
    """A formula refuses constant parts without a finite value, which a program limits."""
    try:
        return parse(written, NAMES, {})
    except ValueError:
        return None


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
    x = np.linspace(-2, 2, 40).astype(np.float32)
    y = np.full_like(x, 0.7)
    value, _ = value_and_slope(*(np.tile(each, (256, 1)) for each in pad(codes, constants)), x, y)
    np.testing.assert_allclose(value[0], function(x, y), rtol=2e-6, atol=1e-6)
    again = read(text(codes, constants, NAMES))
    assert [each.tolist() for each in again] == [codes.tolist(), constants.tolist()]


def pad(codes, constants):
    """At the length of the random programs, so that nothing is compiled anew."""
    assert not codes[LENGTH:].any()
    return codes[:LENGTH], constants[:LENGTH]


def test_invalid_program_texts_are_refused():
    with pytest.raises(ValueError, match="needs power, not among operations"):
        compiled(parse("x ** y", NAMES, {}), NAMES, length=8, operations=["add"])
    with pytest.raises(ValueError, match="has 5 codes; at most 4"):
        read("x + y + x", length=4)


def test_random_programs_keep_their_limits(drawn):
    codes, constants = drawn
    assert np.asarray(jax.vmap(lambda each: postfix.is_valid(each, 2))(codes)).all()
    assert not np.asarray(jax.vmap(lambda each: postfix.is_valid(each, 1))(codes)).all()
    heights = np.asarray(jax.vmap(growth.height)(codes))
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


def test_a_policy_loss_and_its_derivatives():
    settings = program.Program(slot="policy_loss", start=("dpo",), length=64, depth=10)
    meta_params = meta_params_of(settings.compiled("dpo"))
    own = settings.apply
    hand_written = HAND_WRITTEN["policy_loss"]["dpo"]
    component = hand_written
    expected_params = component.init(None)
    log_ratio, advantage = np.random.default_rng(0).normal(size=(2, 50)).astype(np.float32)

    def twice(function, meta_params):
        def at(x, advantage):
            return function(meta_params, CONTEXT, x, advantage)

        both = jax.vmap(jax.value_and_grad(at)), jax.vmap(jax.grad(jax.grad(at)))
        return jax.jit(lambda *each: [function(*each) for function in both])(log_ratio, advantage)

    (value, slope), curvature = twice(own, meta_params)
    (expected, expected_slope), expected_curvature = twice(component.apply, expected_params)
    np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(slope, expected_slope, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(curvature, expected_curvature, rtol=1e-4, atol=1e-5)


def test_a_schedule_and_an_optimizer():
    settings = program.Program(slot="schedule", hyperparams=("learning_rate", "gae_lambda"))
    meta_params = meta_params_of(settings.compiled("1 - 0.5 * progress"), settings.compiled("2"))
    changed = jax.jit(settings.apply)(meta_params, CONTEXT)
    given = CONTEXT.hyperparams
    assert changed.learning_rate == pytest.approx(0.875 * given.learning_rate)
    assert changed.gae_lambda == 1.0  # of a fraction
    assert settings.text(meta_params) == "learning_rate: 1.0 - 0.5 * progress; gae_lambda: 2.0"

    settings = program.Program(slot="make_optimizer", inputs=("mean_9", "value"), length=8)
    own = settings.apply(meta_params_of(settings.compiled("mean_9 + tanh(value)")), CONTEXT)
    written = formula.Formula(
        slot="make_optimizer", expression="mean_9 + tanh(value)", constants={}
    )
    expected = written.apply({"relative": {}}, CONTEXT)
    params = {"params": {"actor_torso": {"kernel": jnp.ones((2, 3))}, "value_head": jnp.ones(4)}}
    gradients = jax.tree.map(lambda each: 0.3 * each, params)

    @jax.jit
    def both():
        told = CONTEXT.extra_args()
        return [
            jax.tree.leaves(each.update(gradients, each.init(params), params, **told)[0])
            for each in (own, expected)
        ]

    for one, other in zip(*both(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"inputs": ["eror"]}, "inputs: 'eror'"),
        ({"inputs": ["error", "error"]}, "inputs: must name each once"),
        ({"operations": ["tan"]}, "'tan'"),
        ({"length": 0}, "length"),
        ({"start": ["error +"]}, "start = 'error \\+'"),
        ({"start": ["import os"]}, "start = 'import os'"),
        ({"start": ["error ** 2 + error"], "length": 3}, "at most 3"),
        ({"start": ["abs(abs(abs(error)))"], "depth": 3}, "at most 3"),
        ({"start": ["huber"]}, "needs gives = 'slope'"),
        ({"start": ["error ** error"]}, "power"),
        ({"start": ["zoo:nothing"]}, "zoo:nothing"),
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
