"""The suite `robots`: whole trainings in a robot of Brax, ours, brax's own PPO and PureJaxRL's.

All take the frames, environments, minibatches, networks and settings of our preset, which squashes
actions by tanh and lets their deviation depend on the state, as brax's PPO always does. It differs
in what cannot be set from outside: minibatches are whole stretches, and rewards are scaled by a
constant, where ours are normalised. PureJaxRL's takes part where the folder `purejaxrl` of its
repository is on PYTHONPATH. It clips actions, has one deviation for all states, and clips values.
"""

import argparse
import functools
import importlib.util
import time
import types
from contextlib import ExitStack
from typing import Any

import numpy as np

from experiments.benchmarks.comparison import OURS, Table, interval, neighbours, number, with_aim
from experiments.benchmarks.processes import Worker, measure_all, own, progress, spread
from experiments.benchmarks.tasks import Measure

PRESET = "train/ppo_brax_ant"
BRAX, PUREJAXRL, PHYSICS = "brax's PPO", "PureJaxRL", "the robot alone, random actions"
PUREJAXRL_FILE = "ppo_continuous_action"
PUREJAXRL_UNITS = 256
"""of its hidden layers, written into its file"""
AIM = 1.0
"""How many times the frames of each peer ours should train on in a CPU second."""
REWARD_SCALING = 0.1
"""of brax's PPO"""
EPOCHS = 8
"""Calls into which brax's training is split; the first two compile, and are not timed."""
EPISODES = 64
"""that every trained policy plays greedily, in brax's own loop"""
PHYSICS_STEPS = 2**16


def suite(options: argparse.Namespace) -> dict[str, Any]:
    """PPO in Brax's ant, spring physics: whole trainings with a seed each, in turns."""
    if not importlib.util.find_spec("brax"):
        progress("robots is left out: pip install 'metaevo[brax]'")
        return {"rows": []}
    settings = _settings(None)
    envs: int = settings.train.num_envs
    alone = {"name": settings.task.env, "num_envs": envs, "steps": PHYSICS_STEPS // envs}
    variants = {
        OURS: own("robot_ours", steps=options.agent_steps),
        BRAX: own("robot_brax", default_flags=True, steps=options.agent_steps),
        PUREJAXRL: own("robot_purejaxrl", default_flags=True, steps=options.agent_steps),
        PHYSICS: own("step_all_devices", **alone),
    }
    if not importlib.util.find_spec(PUREJAXRL_FILE):
        progress(f"{PUREJAXRL} is left out: its {PUREJAXRL_FILE}.py is not on PYTHONPATH")
        del variants[PUREJAXRL]
    with ExitStack() as stack:
        workers = {}
        for name, variant in variants.items():
            progress(f"robots: {name} compiles")
            workers[name] = stack.enter_context(Worker(name, variant))
        results = measure_all(workers, options.repeats)
    table = Table(
        "variant", "steps per CPU second: median [min, max]", "ours is faster: median [min, max]",
        "return after training: mean [min, max] of seeds",
    )  # fmt: skip
    rates = {
        name: [each["amount"] / each["cpu_seconds"] for each in measured]
        for name, measured in results.items()
    }
    rows = []
    for name, values in rates.items():
        row: dict[str, Any] = {"variant": name, **spread(values), "rates": values}
        faster = returns = "-"
        if name in (BRAX, PUREJAXRL):
            row["ours_is_faster"] = neighbours(rates[OURS], values)
            faster = with_aim(interval(row["ours_is_faster"]), row["ours_is_faster"]["median"], AIM)
        if name != PHYSICS:
            row["returns"] = [each["return"] for each in results[name]]
            low, mean, high = (number(f(row["returns"]), 4) for f in (min, np.mean, max))
            returns = f"{mean} [{low}, {high}]"
        rows.append(row)
        table.row(name, interval(row), faster, returns)
    return {"rows": rows, "work": PRESET}


def _settings(steps: int | None) -> Any:
    """Return the preset, with so many environment steps where that is a number."""
    from metaevo.config import from_dict, load_yaml, merge, presets
    from metaevo.training.settings import training_class

    changes = {"train": {"total_timesteps": steps}} if steps else {}
    raw = merge(load_yaml(presets.find(PRESET)), changes)
    return from_dict(training_class(raw), raw)


def robot_ours(steps: int | None) -> tuple[Measure, dict[str, Any]]:
    """Our PPO, one agent on one device."""
    from metaevo.evolution import devices

    devices.setup(1)
    import jax

    from metaevo.training.settings import make_trainee

    settings = _settings(steps)
    _, learner, meta_params, env_params = make_trainee(settings)
    config: Any = learner.config

    def train(key):
        state = learner.train(key, settings.hyperparams, meta_params, env_params).state
        return learner.policy(state)

    def greedy(policy):
        act: Any = functools.partial(learner.act, policy, greedy=True, env_params=env_params)
        return lambda obs, key: (jax.vmap(lambda one: act(key, one))(obs), {})

    compiled = jax.jit(train).lower(jax.random.key(0)).compile()
    evaluator = _evaluator(settings, greedy)
    amount = config.num_updates * config.frames_per_update

    def measure(repeat):
        if repeat == 0:  # it has compiled
            return {}
        start, cpu = time.perf_counter(), time.process_time()
        policy = jax.block_until_ready(compiled(jax.random.key(repeat)))
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        score = _mean_return(evaluator, policy)
        return {"seconds": seconds, "cpu_seconds": cpu, "amount": amount, "return": score}

    return measure, {"layout": "one device"}


def robot_brax(steps: int | None) -> tuple[Measure, dict[str, Any]]:
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
    sizes = {f"{part}_hidden_layer_sizes": config.hidden_sizes for part in ("policy", "value")}
    activation = getattr(linen, config.activation)
    evaluators: list[Any] = []
    train = functools.partial(
        agent.train, _robot(settings),
        num_timesteps=config.num_updates * config.frames_per_update, num_evals=EPOCHS + 1,
        run_evals=False, episode_length=_limit(settings), num_envs=config.num_envs,
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

    def measure(repeat):
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


def robot_purejaxrl(steps: int | None) -> tuple[Measure, dict[str, Any]]:
    """PureJaxRL's PPO for continuous actions; its layers and physics are fixed in its files."""
    import jax
    import jax.numpy as jnp
    from flax import linen

    from purerl.envs.suite import quiet

    with quiet():
        theirs: Any = importlib.import_module(PUREJAXRL_FILE)
    settings = _settings(steps)
    config, hyperparams = settings.train, settings.hyperparams
    (units,) = set(config.hidden_sizes)
    assert len(config.hidden_sizes) == 2

    def dense(features, **options):
        return linen.Dense(units if features == PUREJAXRL_UNITS else features, **options)

    theirs.nn = types.SimpleNamespace(**{**vars(linen), "Dense": dense})
    theirs.BraxGymnaxWrapper = functools.partial(
        theirs.BraxGymnaxWrapper, **settings.task.env_params
    )
    train = theirs.make_train({
        "ENV_NAME": settings.task.env.removeprefix("brax/"), "NORMALIZE_ENV": True,
        "TOTAL_TIMESTEPS": config.num_updates * config.frames_per_update,
        "NUM_ENVS": config.num_envs, "NUM_STEPS": config.num_steps,
        "UPDATE_EPOCHS": config.update_epochs, "NUM_MINIBATCHES": config.num_minibatches,
        "ACTIVATION": config.activation, "LR": hyperparams.learning_rate, "ANNEAL_LR": False,
        "GAMMA": hyperparams.gamma, "GAE_LAMBDA": hyperparams.gae_lambda,
        "CLIP_EPS": hyperparams.clip_epsilon, "ENT_COEF": hyperparams.entropy_coef,
        "VF_COEF": hyperparams.vf_coef, "MAX_GRAD_NORM": hyperparams.max_grad_norm,
    })  # fmt: skip
    network = theirs.ActorCritic(_robot(settings).action_size, activation=config.activation)

    def greedy(policy):
        params, mean, var = policy

        def act(obs, _):
            distribution, _ = network.apply(params, (obs - mean) / jnp.sqrt(var + 1e-8))
            return jnp.clip(distribution.mean(), -1, 1), {}

        return act

    evaluator = _evaluator(settings, greedy)
    compiled = jax.jit(train).lower(jax.random.PRNGKey(0)).compile()
    amount = config.num_updates * config.frames_per_update

    def measure(repeat):
        if repeat == 0:
            return {}
        start, cpu = time.perf_counter(), time.process_time()
        result = jax.block_until_ready(compiled(jax.random.PRNGKey(repeat)))
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        learned, normalised = result["runner_state"][:2]  # rewards are, then observations
        seen = normalised.env_state
        score = _mean_return(evaluator, (learned.params, seen.mean[0], seen.var[0]))
        return {"seconds": seconds, "cpu_seconds": cpu, "amount": amount, "return": score}

    return measure, {"layout": "one device, default"}


def _module(name: str) -> Any:
    """One of brax's modules, of which some print when they are imported."""
    from purerl.envs import brax_suite, suite

    return suite.imported("brax", f"brax.{name}", brax_suite.VERSION)


def _robot(settings: Any) -> Any:
    from purerl import envs

    overrides = {**settings.task.env_params, "observations": "raw"}
    return envs.make(settings.task.env, **overrides)[0].robot


def _limit(settings: Any) -> int:
    from purerl import envs

    return int(envs.make(settings.task.env)[1].max_steps_in_episode)


def _evaluator(settings: Any, policy_of: Any) -> Any:
    """What plays brax's own episodes with `policy_of(a policy's parameters)`."""
    import jax

    limit = _limit(settings)
    env = _module("envs.wrappers.training").wrap(_robot(settings), episode_length=limit)
    return _module("training.acting").Evaluator(
        env, policy_of, num_eval_envs=EPISODES, episode_length=limit, action_repeat=1,
        key=jax.random.PRNGKey(7),  # of the old kind, which brax takes
    )  # fmt: skip


def _mean_return(evaluator: Any, policy: Any) -> float:
    return float(evaluator.run_evaluation(policy, {})["eval/episode_reward"])


WORKERS = {
    "robot_ours": robot_ours,
    "robot_brax": robot_brax,
    "robot_purejaxrl": robot_purejaxrl,
}
