"""The suite `robots`: whole trainings in a Brax robot, by purerl, brax's own PPO and others.

All use the frames, environments, minibatches, networks and settings of our preset, which squashes
actions by tanh with a state-dependent standard deviation, as brax's PPO always does. Two
differences are not configurable: brax's minibatches are whole stretches, and it scales rewards by a
constant, whereas purerl normalises them. An external worker also reports the `return` of its policy
in every sample.
"""

import argparse
import functools
import importlib.util
import time
from typing import Any

import numpy as np

from experiments.benchmarks.comparison import OURS, Comparison
from experiments.benchmarks.external import externals
from experiments.benchmarks.processes import Sample, own, progress
from experiments.benchmarks.work import Clock, Made

PRESET = "train/ppo_brax_ant"
REWARD_SCALING = 0.1
"""of brax's PPO"""
EPOCHS = 8
"""Number of calls that brax's training is split into; the first two compile and are not timed."""
EPISODES = 64
"""that every trained policy plays greedily, in brax's own loop"""
PHYSICS_STEPS = 2**16


def suite(options: argparse.Namespace) -> Comparison:
    """PPO in Brax's ant, spring physics: whole trainings with one seed each."""
    comparison = Comparison("steps", "preset", extra={"return after training": "return"})
    if not importlib.util.find_spec("brax"):
        progress("robots is left out: pip install 'metaevo[brax]'")
        return comparison
    settings = _settings(None)
    envs: int = settings.train.num_envs
    steps = options.agent_steps or settings.train.total_timesteps
    variants = {
        OURS: own("robots:ours", steps=options.agent_steps),
        "brax's PPO": own("robots:brax", default_flags=True, steps=options.agent_steps),
        "the robot alone, random actions": own(
            "environments:all_devices", name=settings.task.env, num_envs=envs,
            steps=PHYSICS_STEPS // envs,
        ),
        **externals(options, suite="robots", task=settings.task.env, agent_steps=steps),
    }  # fmt: skip
    comparison.case(variants, options.repeats, PRESET)
    return comparison


# --- In the worker's process ----------------------------------------------------------------------


def _settings(steps: int | None) -> Any:
    """Return the preset, optionally with a different number of environment steps."""
    from metaevo.config import from_dict, load_yaml, merge, presets
    from metaevo.training.settings import training_class

    changes = {"train": {"total_timesteps": steps}} if steps else {}
    raw = merge(load_yaml(presets.find(PRESET)), changes)
    return from_dict(training_class(raw), raw)


def ours(steps: int | None) -> Made:
    """Our PPO, one agent on one device."""
    from metaevo.evolution import devices

    devices.setup(1)
    import jax

    from metaevo.training.settings import make_task
    from purerl import acting

    settings = _settings(steps)
    (_, learner, env_params), meta_params = make_task(settings)
    config: Any = learner.config

    def train(key):
        state = learner.train(key, settings.hyperparams, meta_params, env_params).state
        return learner.policy(state)

    def greedy(policy):
        def act(key, obs):
            return acting.act(learner, policy, None, key, obs, greedy=True, env_params=env_params)

        return lambda obs, key: (jax.vmap(lambda one: act(key, one)[0])(obs), {})

    compiled = jax.jit(train).lower(jax.random.key(0)).compile()
    evaluator = _evaluator(settings, greedy)
    amount = config.num_updates * config.frames_per_update

    def measure(repeat: int) -> Sample:
        if repeat == 0:  # it has compiled
            return {}
        clock = Clock()
        policy = jax.block_until_ready(compiled(jax.random.key(repeat)))
        return {**clock.sample(amount), "return": _mean_return(evaluator, policy)}

    return measure, {"layout": "one device"}


def brax(steps: int | None) -> Made:
    """Brax's own PPO, which compiles anew in every training."""
    import jax
    import jax.numpy as jnp
    from flax import linen

    from purerl.envs.suite import quiet

    # JAX has dropped it, and brax 0.14.2 calls it; there is one device here.
    vars(jax)["device_put_replicated"] = lambda tree, _: jax.tree.map(
        lambda x: jnp.asarray(x)[None], tree
    )
    agent, networks = (_module(f"training.agents.ppo.{name}") for name in ("train", "networks"))
    settings = _settings(steps)
    config, hyperparams = settings.train, settings.hyperparams
    robot, limit = _robot(settings)
    sizes = {f"{part}_hidden_layer_sizes": config.hidden_sizes for part in ("policy", "value")}
    activation = getattr(linen, config.activation)
    evaluators: list[Any] = []
    train = functools.partial(
        agent.train, robot,
        num_timesteps=config.num_updates * config.frames_per_update, num_evals=EPOCHS + 1,
        run_evals=False, episode_length=limit, num_envs=config.num_envs,
        unroll_length=config.num_steps, num_minibatches=config.num_minibatches,
        batch_size=config.num_envs // config.num_minibatches,
        num_updates_per_batch=config.update_epochs,
        normalize_observations=config.normalize_observations, reward_scaling=REWARD_SCALING,
        learning_rate=hyperparams.learning_rate, entropy_cost=hyperparams.entropy_coef,
        discounting=hyperparams.gamma, gae_lambda=hyperparams.gae_lambda,
        clipping_epsilon=hyperparams.clip_epsilon, max_grad_norm=hyperparams.max_grad_norm,
        network_factory=functools.partial(
            networks.make_ppo_networks, activation=activation, **sizes
        ),
    )  # fmt: skip

    def measure(repeat: int) -> Sample:
        if repeat == 0:
            return {}
        ends = []  # frames and times, at the start and after each epoch

        def note(frames, *_):
            ends.append((frames, time.perf_counter(), time.process_time()))

        with quiet():
            policy_of, policy, _ = train(seed=repeat, policy_params_fn=note)
        first, last = np.array(ends[2]), np.array(ends[-1])
        amount, seconds, cpu = (last - first).tolist()
        if not evaluators:
            greedy = functools.partial(policy_of, deterministic=True)
            evaluators.append(_evaluator(settings, greedy))
        score = _mean_return(evaluators[0], policy)
        return {"seconds": seconds, "cpu_seconds": cpu, "amount": amount, "return": score}

    return measure, {"layout": "one device, default"}


def _module(name: str) -> Any:
    """Import a module of brax without its output."""
    from purerl.envs import brax_suite, suite

    return suite.imported("brax", f"brax.{name}", brax_suite.VERSION)


def _robot(settings: Any) -> tuple[Any, int]:
    """Return brax's environment, and the most steps of an episode."""
    from purerl import envs

    overrides = {**settings.task.env_params, "observations": "raw"}
    env, env_params = envs.make(settings.task.env, **overrides)
    return env.robot, int(env_params.max_steps_in_episode)


def _evaluator(settings: Any, policy_of: Any) -> Any:
    """Return brax's evaluator of the policy `policy_of(parameters)`."""
    import jax

    robot, limit = _robot(settings)
    env = _module("envs.wrappers.training").wrap(robot, episode_length=limit)
    return _module("training.acting").Evaluator(
        env, policy_of, num_eval_envs=EPISODES, episode_length=limit, action_repeat=1,
        key=jax.random.PRNGKey(7),  # of the old kind, which brax takes
    )  # fmt: skip


def _mean_return(evaluator: Any, policy: Any) -> float:
    return float(evaluator.run_evaluation(policy, {})["eval/episode_reward"])
