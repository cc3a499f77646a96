"""The suite `programs`: training with a rule as a program, and with the same rule as a function.

All agents of a measurement train with copies of one program; `compile, s` is the time of one
compilation for any number of programs, and of one for each function.

The rule `different` is many random programs, an agent for each, with compilation in the measured
time: one for all programs, or one for each as a formula, of which a few are measured. As its unit
is a step of the same length on both sides, the ratio is that for equally many programs.
"""

import argparse
import functools
from typing import Any, NamedTuple

from experiments.benchmarks.comparison import Comparison
from experiments.benchmarks.processes import own
from experiments.benchmarks.work import Made, layout, timed

FUNCTION = "function"
DIFFERENT = "different"
PROGRAMS, SAMPLE = 10_000, 8
"""Programs of the rule `different`: those compiled once, and those compiled one by one."""


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
            kind: own(f"programs:{kind}", rule=name, agents=agents, steps=steps)
            for kind in (FUNCTION, "program")
        }
        comparison.case(variants, options.repeats, name, agents)
    if options.keep(DIFFERENT):
        steps = options.agent_steps or STEPS["value_loss"]
        variants = {
            FUNCTION: own("program_compilations:one_by_one", count=SAMPLE, steps=steps),
            "program": own("program_compilations:together", count=PROGRAMS, steps=steps),
        }
        label = f"{SAMPLE} as functions, {PROGRAMS:,} as programs"
        comparison.case(variants, options.repeats, DIFFERENT, label)
    return comparison


# --- In the worker's process ----------------------------------------------------------------------


def function(rule: str, agents: int, steps: int) -> Made:
    """Train with the hand-written function; the amount is in environment steps."""
    return _trained(rule, agents, steps, as_program=False)


def program(rule: str, agents: int, steps: int) -> Made:
    """Train with the program."""
    return _trained(rule, agents, steps, as_program=True)


def _trained(name: str, agents: int, steps: int, *, as_program: bool) -> Made:
    from metaevo.evolution import devices

    devices.setup(1)
    import jax
    import jax.numpy as jnp

    from metaevo.components import program
    from metaevo.evolution.seeding import Purpose, keys_for
    from purerl import envs, ppo, q_learning
    from purerl.learners import HAND_WRITTEN

    rule = RULES[name]
    filling, meta_params = {rule.slot: HAND_WRITTEN[rule.slot][rule.function]}, None
    if as_program:
        config = program.Config(
            slot=rule.slot,  # type: ignore[arg-type]
            gives=rule.gives,  # type: ignore[arg-type]
            inputs=rule.inputs,
            length=40,
            start=(rule.expression,),
        )
        filling = {rule.slot: program.make(config).apply}
        one = dict(zip(("codes", "constants"), config.compiled(rule.expression), strict=True))
        meta_params = {key: jnp.tile(leaf, (agents, 1, 1)) for key, leaf in one.items()}
    hyperparams: Any
    if rule.slot == "value_loss":
        env, env_params = envs.make("GridWorld", observations="index")
        hyperparams = q_learning.Hyperparams()
        train = q_learning.make_train(
            q_learning.Config(total_timesteps=steps, num_steps=100), env, **filling
        )
    else:
        env, env_params = envs.make("CartPole-v1")
        hyperparams = ppo.Hyperparams(learning_rate=2.5e-3)
        settings = ppo.Config(
            total_timesteps=steps, num_envs=4, num_steps=128, num_minibatches=4, update_epochs=4,
            hidden_sizes=(32, 32),
        )  # fmt: skip
        train = ppo.make_train(settings, env, **filling)

    @jax.jit
    @functools.partial(jax.vmap, in_axes=(0, 0 if as_program else None))
    def trained(key, meta_params):
        return train(key, hyperparams, meta_params, env_params)

    def keys(repeat):
        return keys_for(repeat, Purpose.TRAINING, agents)

    measure = timed(lambda keys: trained(keys, meta_params), keys, agents * steps)
    return measure, {"layout": layout(1, agents)}
