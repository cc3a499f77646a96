import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metaevo.config import ConfigError
from metaevo.config.references import reference_of
from metaevo.parts import Formula, LearnedTargets, Program
from metaevo.parts.formula import HAND_WRITTEN
from metaevo.parts.learners import PART
from purerl import ppo, pqn
from purerl.parts import returns
from purerl.types import Context, Estimates, Rollout
from tests.metaevo.evolving import settings_of
from tests.metaevo.parts.test_saved import part

T, N = 24, 3
CONTEXT = Context(ppo.Hyperparams(gamma=0.9, gae_lambda=0.8, return_steps=4), 0.25, 100)


def rollout(*, ratio=None):
    """Values of states, and episodes that end in the middle, also by truncation."""
    rng = np.random.default_rng(2)
    reward, value, other, log_prob = rng.normal(size=(4, T, N)).astype(np.float32)
    terminated, truncated = rng.random((2, T, N)) < 0.1
    done = terminated | truncated
    next_value = np.where(done, other, np.roll(value, -1, axis=0))
    flags = jnp.asarray(terminated), jnp.asarray(truncated)
    return Rollout(reward, value, next_value, *flags, -jnp.abs(log_prob), ratio)


SEEN = rollout()
FORMULAS = {
    **{name: (formula.expression, name) for name, formula in HAND_WRITTEN["targets"].items()},
    "n_step": ("delta + gamma * next_advantage - gamma**4 * delta_4", "n_step"),
    "v_trace": ("minimum(ratio, 1) * (delta + gamma * gae_lambda * next_advantage)", "v_trace"),
}


@pytest.mark.parametrize("kind", [Formula, Program])
@pytest.mark.parametrize("name", FORMULAS)
def test_hand_written_targets_as_formulas_and_programs(name, kind):
    """To 1e-6; the advantages of V-trace are not errors of its targets."""
    expression, function = FORMULAS[name]
    seen = SEEN._replace(ratio=jnp.exp(0.5 * SEEN.reward)) if name == "v_trace" else SEEN
    if kind is Formula:
        made = Formula("targets", expression, {})
        meta_params = made.init(jax.random.key(0))
    else:
        made = Program("targets", length=48)
        codes, constants = made.compiled(expression)
        meta_params = {"codes": codes[None], "constants": constants[None]}
    found = jax.jit(made.apply)(meta_params, CONTEXT, seen)
    expected = pqn.LEARNER.slot("targets").functions[function](None, CONTEXT, seen)
    np.testing.assert_allclose(found.target, expected.target, rtol=1e-5, atol=1e-6)
    if name != "v_trace":
        np.testing.assert_allclose(found.advantage, expected.advantage, rtol=1e-5, atol=1e-6)


def test_the_network_begins_at_gae_and_keeps_to_its_episode():
    made = LearnedTargets(temporal=True)
    apply, start = jax.jit(made.apply), made.init(jax.random.key(0))
    for each, other in zip(
        apply(start, CONTEXT, SEEN), returns.gae(None, CONTEXT, SEEN), strict=True
    ):
        np.testing.assert_allclose(each, other, rtol=1e-5, atol=1e-6)
    drawn = {name: leaf + 0.1 for name, leaf in start.items()}
    found = apply(drawn, CONTEXT, SEEN)
    scaled = SEEN._replace(**{name: 10 * getattr(SEEN, name)
                              for name in ("reward", "value", "next_value")})  # fmt: skip
    for each, other in zip(found, apply(drawn, CONTEXT, scaled), strict=True):
        np.testing.assert_allclose(other, 10 * each, rtol=1e-4, atol=1e-4)
    ends = np.argwhere(np.asarray(SEEN.done)[:-1])
    assert len(ends) > 3
    for t, env in ends:  # a small change leaves the unit of the rollout almost as it was
        reward = SEEN.reward.copy()
        reward[t + 1 :, env] += 0.01
        change = apply(drawn, CONTEXT, SEEN._replace(reward=reward)).advantage - found.advantage
        before, after = jnp.abs(change[: t + 1, env]).max(), jnp.abs(change[t + 1 :, env]).max()
        assert before < 0.1 * after


def estimates(make):
    return lambda scale, context, seen: Estimates(*make(seen.reward))


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        (estimates(lambda reward: (reward, reward.mean())), r"target is float32\[\]: must be"),
        (estimates(lambda reward: (reward[:-1], reward)), r"advantage is float32\[31, 4\]"),
        (estimates(lambda reward: (reward > 0, reward)), r"advantage is bool\[32, 4\]"),
        (lambda scale, context, rollout: rollout.reward, "must return purerl.types.Estimates"),
        ({"evolve": "formula", "expression": "c * delta_8"}, "num_steps = 8: delta_8 is"),
        ({"evolve": "formula", "expression": "c * detla"}, "unknown name 'detla'"),
        ({"evolve": "formula", "expression": "c * delta", "gives": "slope"}, "gives = 'slope'"),
        ({"evolve": "program", "inputs": ["next_advantage", "delta_8"]}, "num_steps = 8: delta_8"),
    ],
)  # fmt: skip
def test_invalid_targets_are_refused_in_one_line(raw, complaint):
    train = {"num_envs": 4, "num_steps": 32, "total_timesteps": 1024}
    if isinstance(raw, dict):
        train["num_steps"] = 8
        component = {key: raw[key] for key in raw if key != "evolve"} | {"slot": "targets"}
        if raw["evolve"] == "formula":
            component["constants"] = {"c": 1.0}
        raw = {"evolve": raw["evolve"], "component": component}
    else:
        raw = {"evolve": reference_of(PART, part("targets", raw))}
    with pytest.raises(ConfigError, match=complaint) as caught:
        settings_of({**raw, "learner": "ppo", "train": train}).build()
    assert "\n" not in str(caught.value)
