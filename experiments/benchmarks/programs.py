"""The suite `programs`: training with a rule as a program, and with the same rule as a function.

All agents of a measurement train with copies of one program; `compile, s` is the time of one
compilation for any number of programs, and of one for each function.

The rule `different` is many random programs, an agent for each, with compilation in the measured
time: one for all programs, or one for each as a formula, of which a few are measured. As its unit
is a step of the same length on both sides, the ratio is that for equally many programs.
"""

import argparse
import contextlib
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

from experiments.benchmarks.comparison import Comparison
from experiments.benchmarks.processes import Sample, own
from experiments.benchmarks.work import Clock, Made, layout, timed

FUNCTION = "function"
DIFFERENT = "different"
PROGRAMS, SAMPLE = 10_000, 8
"""Programs of the rule `different`: those compiled once, and those compiled one by one."""
CHUNK = 500
"""programs that train side by side"""


class Rule(NamedTuple):
    """A hand-written function that is also a program."""

    slot: str
    function: str
    expression: str
    gives: str = "value"
    inputs: tuple[str, ...] = ()


RULES = {
    "huber": Rule("value_loss", "huber", "clip(error, -1, 1)", "slope", ("error",)),
    "huber, value": Rule(
        "value_loss",
        "huber",
        "where(abs(error) > 1, abs(error) - 0.5, error**2 / 2)",
        inputs=("error",),
    ),
    "clip": Rule(
        "policy_loss",
        "clipped_surrogate",
        "-minimum(ratio * advantage, clip(ratio, 0.8, 1.2) * advantage)",
    ),
    "adam with decay": Rule(
        "make_optimizer",
        "adam",
        "mean_9 * (1 - 0.3 * progress) + 0.05 * tanh(value)",
        inputs=("mean_9", "value", "progress"),
    ),
}
AGENTS = {"value_loss": 512, "policy_loss": 16, "make_optimizer": 16}
STEPS = {"value_loss": 5_000, "policy_loss": 8_192, "make_optimizer": 8_192}
"""Environment steps of an agent, Q-learning's in GridWorld and PPO's on CartPole-v1."""


def suite(options: argparse.Namespace) -> Comparison:
    """Rules as programs, in chunks of agents on one device, against the same hand-written rules."""
    comparison = Comparison("steps", "rule", "agents", faster_than=FUNCTION)
    for name, rule in RULES.items():
        if not options.keep(name):
            continue
        agents = AGENTS[rule.slot]
        steps = options.agent_steps or STEPS[rule.slot]
        variants = {
            kind: own("programs:same", {"name": name, "agents": agents}, steps=steps, kind=kind)
            for kind in (FUNCTION, "program")
        }
        comparison.case(variants, options.repeats, name, agents)
    if options.keep(DIFFERENT):
        steps = options.agent_steps or STEPS["value_loss"]
        variants = {
            FUNCTION: own("programs:one_by_one", count=SAMPLE, steps=steps),
            "program": own("programs:together", count=PROGRAMS, steps=steps),
        }
        label = f"{SAMPLE} as functions, {PROGRAMS:,} as programs"
        comparison.case(variants, options.repeats, DIFFERENT, label)
    return comparison


# --- In the worker's process ----------------------------------------------------------------------


def same(name: str, agents: int, steps: int, kind: str) -> Made:
    """Train all agents with one rule; the amount is in environment steps."""
    from metaevo.evolution import devices

    devices.setup(1)
    import jax
    import jax.numpy as jnp

    from metaevo.evolution.seeding import Purpose, keys_for
    from metaevo.parts import program
    from purerl.parts import losses

    rule = RULES[name]
    slot = {"value_loss": losses.VALUE_LOSS, "policy_loss": losses.POLICY_LOSS}[rule.slot]
    filling, meta_params, axis = slot.functions[rule.function], None, None
    if kind != FUNCTION:
        config = program.Program(
            slot=rule.slot,
            gives=rule.gives,  # type: ignore[arg-type]
            inputs=rule.inputs,
            length=40,
            start=(rule.expression,),
        )
        filling, axis = config.apply, 0
        one = dict(zip(("codes", "constants"), config.compiled(rule.expression), strict=True))
        meta_params = {key: jnp.tile(leaf, (agents, 1, 1)) for key, leaf in one.items()}
    learner = _q_learning if rule.slot == "value_loss" else _ppo
    trained = jax.jit(jax.vmap(learner(steps, **{rule.slot: filling}), in_axes=(0, axis)))

    def keys(repeat):
        return keys_for(repeat, Purpose.TRAINING, agents)

    measure = timed(lambda keys: trained(keys, meta_params), keys, agents * steps)
    return measure, {"layout": layout(1, agents)}


def _q_learning(steps: int, **filling: Callable) -> Callable:
    """Return `(key, meta_params) -> result`: tabular Q-learning in GridWorld."""
    from purerl import envs, q_learning

    env, env_params = envs.make("GridWorld", observations="index")
    config = q_learning.Config(total_timesteps=steps, num_steps=100)
    train = q_learning.make_train(config, env, **filling)
    return lambda key, meta: train(key, q_learning.Hyperparams(), meta, env_params)


def _ppo(steps: int, **filling: Callable) -> Callable:
    """Return `(key, meta_params) -> result`: PPO on CartPole-v1."""
    from purerl import envs, ppo

    env, env_params = envs.make("CartPole-v1")
    hyperparams = ppo.Hyperparams(learning_rate=2.5e-3)
    config = ppo.Config(
        total_timesteps=steps, num_envs=4, num_steps=128, num_minibatches=4, update_epochs=4,
        hidden_sizes=(32, 32),
    )  # fmt: skip
    train = ppo.make_train(config, env, **filling)
    return lambda key, meta: train(key, hyperparams, meta, env_params)


def together(count: int, steps: int) -> Made:
    """Train different programs in chunks, compiled once in every measurement."""
    config, _, programs = _different(count)
    import jax
    import numpy as np

    chunks = [
        jax.tree.map(lambda *each: np.stack(each), *programs[start : start + CHUNK])
        for start in range(0, count, CHUNK)
    ]

    def measure(repeat: int) -> Sample:
        clock = Clock()
        train = _q_learning(steps, value_loss=config.apply)
        trained = jax.jit(jax.vmap(train, in_axes=(None, 0)))
        for chunk in chunks:
            jax.block_until_ready(trained(jax.random.key(repeat), chunk))
        return clock.sample(count * steps)

    return measure, {"layout": layout(1, min(count, CHUNK))}


def one_by_one(count: int, steps: int) -> Made:
    """Compile and train the same programs by themselves, as formulas."""
    _, texts, _ = _different(count)
    import jax

    from metaevo.parts import formula

    def measure(repeat: int) -> Sample:
        clock = Clock()
        for text in texts:
            part = formula.Formula(gives="slope", expression=text, constants={})
            train, start = (
                jax.jit(_q_learning(steps, value_loss=part.apply)),
                jax.random.key(0),
            )
            jax.block_until_ready(train(jax.random.key(repeat), part.init(start)))
        return clock.sample(count * steps)

    return measure, {"layout": layout(1, 1)}


def _different(count: int) -> tuple[Any, list[str], list[Any]]:
    """Return a part, and random programs of it with different texts: formulas, and programs.

    Nothing is compiled before, and no cache is read.
    """
    import jax

    jax.config.update("jax_enable_compilation_cache", False)
    from metaevo.evolution import devices

    devices.setup(1)
    from metaevo.parts import expressions, program, program_text

    config = program.Program(
        slot="value_loss", gives="slope", inputs=("error",), length=16, depth=6
    )
    draw = jax.jit(jax.vmap(config.init))
    found: dict[str, Any] = {}
    for seed in itertools.count():
        drawn = jax.device_get(draw(jax.random.split(jax.random.key(seed), 2 * count)))
        for codes, constants in zip(drawn["codes"], drawn["constants"], strict=True):
            text = program_text.text(codes[0], constants[0], config.names)
            with contextlib.suppress(ValueError):  # such as the root of a negative number
                expressions.parse(text, config.names, {})
                found.setdefault(text, {"codes": codes, "constants": constants})
            if len(found) == count:
                return config, list(found), list(found.values())
    raise AssertionError
