"""The suite `kernels`: our kernels for a GPU against XLA's.

Each program runs with the kernels of `purerl.fast` ("ours") and without ("XLA"). Before the first
gradient step, the ratio of the learning and the acting policy is 1, apart from rounding, since
different kernels compute rollouts and minibatches: the column `layout` has the mean size of its
logarithm. The last program has keys that are committed to the CPU, and selects its kernels itself.
A CPU interprets the kernels: `--agents 2 --agent-steps 512` tries the suite without a GPU.
"""

import argparse
from collections.abc import Iterator
from typing import Any, cast
from unittest import mock

from experiments.benchmarks import evolution, training
from experiments.benchmarks.engine import OURS, Case, Measure, own, timed
from metaevo.config import merge

PROGRAMS = {
    "ppo, 64 envs, first minibatch": (64, {"num_envs": 64}),
    "ppo": (64, {}),
    "ppo, many": (2048, {}),
    "ppo, recurrent": (2048, {"recurrent_size": 32}),
    "evolution, blog": (512, {}),
    "ppo, keys on the CPU": (64, {}),
}
"""By name: the number of agents or candidates, and changes of PPO's settings for CartPole."""


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """Yield the programs, with kernels and without."""
    for name, (default, _) in PROGRAMS.items():
        agents, steps = min([default, *options.agents]), options.agent_steps or 65_536
        work = {"name": name, "agents": agents, "agent_steps": steps}
        found = {OURS: own("kernels:program", {**work, "kernels": True})}
        if "CPU" not in name:
            found["XLA"] = own("kernels:program", {**work, "kernels": False})
        yield ("kernels", name, agents), found


# --- In the worker's process ----------------------------------------------------------------------


def program(name: str, agents: int, agent_steps: int, kernels: bool) -> tuple[Measure, str]:
    """Compile a program for this machine; the amount is in environment steps."""
    from purerl.fast import kernels as switch
    from purerl.fast import perceptron

    if "CPU" not in name:
        mock.patch.object(switch, "has_triton", return_value=kernels).start()
    mock.patch.object(perceptron, "MANY", min(agents, perceptron.MANY)).start()
    if name.startswith("evolution"):
        return evolution.value_loss("blog", 1, agents, agent_steps)

    from metaevo.evolution import devices

    devices.setup(1)
    import jax
    import jax.numpy as jnp

    from metaevo.training.settings import make_task
    from purerl.parts import minibatches

    raw = merge(training.WORK["ppo", "CartPole-v1"], {"train": PROGRAMS[name][1]})
    frames = training.frames_per_update(raw)
    settings = training.settings_of(raw, max(2, agent_steps // frames))
    bound, functions = cast(Any, make_task(settings))
    learner, env_params = bound.learner, bound.env_params
    config, hyperparams = settings.train, settings.hyperparams

    def keys(seed):
        found = jax.random.split(jax.random.key(seed), agents)
        return jax.device_put(found, jax.devices("cpu")[0]) if "CPU" in name else found

    def log_ratio(key):
        init_key, order_key = jax.random.split(key)
        state = learner.init(init_key, hyperparams, functions, env_params)
        state, transitions, _ = learner.collect(state, env_params)
        state, batch = learner.make_batch(state, transitions, hyperparams)
        counts = config.batch_size, config.num_minibatches, config.update_epochs
        rows = minibatches.order(order_key, *counts, length=1)[0]
        first = jax.tree.map(lambda leaf: leaf[rows], batch)
        policy, _ = learner.replay(state.params, first)
        before, action = first.transition.log_prob, first.transition.action
        return jnp.mean(jnp.abs(policy.log_prob(action) - before))

    def train(key):
        result = learner.train(key, hyperparams, functions, env_params)
        return result.episodes, result.metrics, learner.policy(result.state)

    if "minibatch" in name:
        compiled = jax.jit(jax.vmap(log_ratio))
        layout = f"log ratio {jnp.mean(compiled(keys(0))):.2g}"
        return timed(compiled, keys, agents * frames), layout
    return timed(jax.jit(jax.vmap(train)), keys, agents * frames * config.num_updates), ""
