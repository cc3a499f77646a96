import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metaevo.config import ConfigError
from metaevo.parts.expressions import parse
from metaevo.parts.formula import HAND_WRITTEN, Formula
from purerl import ppo
from purerl.parts import losses, optimizers
from purerl.types import Context
from tests.metaevo.evolving import study_of

CONTEXT = Context(ppo.Hyperparams(), progress=0.25)
INPUTS = "error", "progress"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", 0.5),
        ("-a + 2 * b - 1e-1", -0.5 - 6 - 0.1),
        ("a / b ** 2", 0.5 / 9),
        ("b ** 3", -27.0),
        ("b ** -2", 1 / 9),
        ("abs(b) * sign(b)", -3.0),
        ("log1p(a) + exp(a) + tanh(b)", np.log(1.5) + np.exp(0.5) + np.tanh(-3)),
        ("sqrt(a) + minimum(a, b) - maximum(a, b)", np.sqrt(0.5) - 3.5),
        ("clip(b, -a, a)", -0.5),
        ("where(a >= 0.5, 2, 3) + where(b > a, 10, 20)", 22.0),
    ],
)
def test_formulas_are_evaluated(text, expected):
    found = parse(text, ["a", "b"], {}).evaluate({"a": 0.5, "b": -3.0})
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-6)


REFUSED = [
    "eror ** 2", "tan(error)", "error / 0", "error / (c0 - c0)", "1 / 0", "0 ** -1",
    "sqrt(-1) * error", "9 ** 9 ** 9 ** 9 ** 9", "1e39", "9" * 500,
    "__import__('os').system('true')", "error.__class__", "(lambda: error)()",
    "[error for error in (1,)]", "open(error)", "exp(x=error)", "exp(*error)", "exp(error, error)",
    "error if error else 0", "error > 0", "where(error, 1, 2)", "0 < error < 1", "'error'", "True",
    "1j", "error // 2", "x := 1", "import os", "error\n+ 1", "error; error", "", "\0",
    "(" * 300 + "error" + ")" * 300, "-" * 900 + "error", "1" + "+1" * 400, "error " * 400,
    "error" + ".a" * 900,
]  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_invalid_expressions_are_refused_in_one_line(text):
    with pytest.raises(ValueError, match=r".") as caught:
        parse(text, INPUTS, {"c0": 0.5})
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"constants": {"c0": 0.1, "c1": 1.0}}, "c1"),
        ({"constants": {"exp": 0.1}}, "'exp'"),
        ({"constants": {"c0": "x"}}, r"component\.constants\.c0 = 'x'"),
        ({"constants": {"c0": 0.0}, "expression": "error / c0"}, "error / c0"),
        ({"slot": "schedule", "expression": "progress + c0", "gives": "slope"}, "gives = 'slope'"),
        ({"slot": "policy_loss"}, "'error'"),
        ({"expression": "error**2", "constants": {}}, "evolve = 'formula'"),
        ({"also": {"clip_epsilon": "c0"}}, "also"),
        ({"slot": "schedule", "expression": "c0", "also": {"learning_rate": "c0"}}, "also"),
        ({"slot": "schedule", "expression": "c0", "also": {"clip_epsilon": "eror"}}, "eror"),
    ],
)
def test_settings_that_are_refused(config, key):
    with pytest.raises(ConfigError, match=key) as caught:
        study_of({"evolve": "formula", "learner": "ppo", "component": config})
    assert "\n" not in str(caught.value)


LOSSES = {"value_loss": losses.VALUE_LOSS, "policy_loss": losses.POLICY_LOSS}
AS_FORMULAS = [
    *((slot, name) for slot in LOSSES for name in HAND_WRITTEN[slot]),
    ("value_loss", "as a value"),
]


@pytest.mark.parametrize(("slot", "name"), AS_FORMULAS)
def test_hand_written_losses_as_formulas(slot, name):
    part = HAND_WRITTEN[slot].get(name, Formula(expression="error**2 / 2", constants={}))
    meta_params = part.init(jax.random.key(0))
    scalars = np.random.default_rng(0).normal(size=(3 if slot == "value_loss" else 2, 200))
    scalars = scalars.astype(np.float32) * (1.0 if slot == "value_loss" else 0.3)

    def both(function, meta_params):
        def loss(*scalars):
            return function(meta_params, CONTEXT, *scalars)

        return jax.jit(jax.vmap(jax.value_and_grad(loss)))(*scalars)

    value, slope = both(part.apply, meta_params)
    expected, expected_slope = both(LOSSES[slot].functions.get(name, losses.squared), None)
    np.testing.assert_allclose(slope, expected_slope, rtol=1e-4, atol=1e-6)
    kink = {"atol": 0.05} if name == "huber" else {"rtol": 1e-4, "atol": 1e-6}  # of the quadrature
    np.testing.assert_allclose(value, expected, **kink)


@pytest.mark.parametrize("name", HAND_WRITTEN["schedule"])
def test_hand_written_schedules_as_formulas(name):
    part = HAND_WRITTEN["schedule"][name]
    found = part.apply(part.init(None), CONTEXT)
    expected = optimizers.SCHEDULE.functions[name](None, CONTEXT)
    assert vars(found) == pytest.approx(vars(expected))


PARAMS = {"params": {"actor_torso": {"kernel": jnp.ones((2, 3))}, "value_head": jnp.zeros(4)}}


def steps(make_optimizer, meta_params, count=6, scale=1.0):
    """The steps of an optimizer on a quadratic, as vectors, and its last state."""
    context = Context(ppo.Hyperparams(learning_rate=0.1, max_grad_norm=0.5), num_updates=8)
    made = make_optimizer(meta_params, context)

    def step(carry, progress):
        params, state = carry
        here = context.replace(progress=progress)
        gradients = jax.tree.map(lambda x: scale * (x - 0.3), params)
        updates, state = made.update(gradients, state, params, context=here)
        params = jax.tree.map(jnp.add, params, updates)
        return (params, state), jax.flatten_util.ravel_pytree(updates)[0]

    (_, state), found = jax.jit(
        lambda: jax.lax.scan(step, (PARAMS, made.init(PARAMS)), jnp.arange(count) / count)
    )()
    return np.asarray(found), state


def test_adam_as_a_formula():
    part = HAND_WRITTEN["make_optimizer"]["adam"]
    found, state = steps(part.apply, part.init(None))
    expected, _ = steps(optimizers.adam, None)
    np.testing.assert_allclose(found, expected, rtol=2e-5)
    assert state[1].means.shape == (1, 10)  # of the one that it looks at


def test_an_optimizers_formula_sees_the_parameter_and_the_time():
    text = "c0 * where(policy > 0, value, progress) + length"
    part = Formula(slot="make_optimizer", expression=text, constants={"c0": 4.0})
    ((first, *_), *_, last), _ = steps(part.apply, part.init(None), 4)
    length = np.log(8) / 10
    np.testing.assert_allclose(first, -0.1 * (4.0 + length), rtol=1e-5)
    # of the value head, at the annealed rate
    np.testing.assert_allclose(last[-1], -0.1 * 0.25 * (3.0 + length), rtol=1e-5)
    constant = Formula(slot="make_optimizer", expression="c0", constants={"c0": 2.0})
    np.testing.assert_allclose(steps(constant.apply, constant.init(None), 1)[0], -0.2, rtol=1e-6)


def test_a_policy_loss_sees_the_length_of_training():
    part = Formula("policy_loss", "length * log_ratio", {}, gives="slope")
    context = Context(ppo.Hyperparams(), num_updates=jnp.array(64))
    found = jax.grad(part.apply, 2)(part.init(None), context, 2.0, 1.0)
    np.testing.assert_allclose(found, 2.0 * np.log(64) / 10, rtol=1e-5)


def test_second_derivatives_and_derivatives_by_constants():
    part = Formula("value_loss", "a * tanh(error) + b", {"a": 2.0, "b": -0.5}, gives="slope")
    meta_params = part.init(jax.random.key(0))
    assert part.numbers(meta_params) == {"a": 2.0, "b": -0.5}

    def slope(meta_params, prediction):
        return jax.grad(part.apply, argnums=2)(meta_params, CONTEXT, prediction, 0.5, 0.0)

    by_constants, by_prediction = jax.jit(jax.grad(slope, argnums=(0, 1)))(meta_params, 1.5)
    np.testing.assert_allclose(by_prediction, 2.0 / np.cosh(1.0) ** 2, rtol=1e-5)
    by_a, by_b = by_constants["relative"]["a"], by_constants["relative"]["b"]  # in units of 2, 0.5
    np.testing.assert_allclose([by_a, by_b], [2.0 * np.tanh(1.0), 0.5], rtol=1e-5)
    value = part.apply(meta_params, CONTEXT, 1.5, 0.5, 0.0)
    np.testing.assert_allclose(value, 2.0 * np.log(np.cosh(1.0)) - 0.5, rtol=1e-5)


def test_a_schedule_of_several_hyperparameters():
    also = {"clip_epsilon": "c1 + progress", "gae_lambda": "2"}
    part = Formula("schedule", "1 - c0 * progress", {"c0": 0.5, "c1": 2.0}, also=also)
    given = ppo.Hyperparams()
    changed = part.apply(part.init(jax.random.key(0)), Context(given, jnp.float32(0.5), 10))
    assert changed.learning_rate == pytest.approx(0.75 * given.learning_rate)
    assert changed.clip_epsilon == pytest.approx(2.5 * given.clip_epsilon)
    assert changed.gae_lambda == 1.0  # of a fraction
    assert part.length == 5 + 3 + 1
    text = "learning_rate: 1 - 0.5 * progress; clip_epsilon: 2.0 + progress; gae_lambda: 2"
    assert part.text(part.init(jax.random.key(0))) == text
