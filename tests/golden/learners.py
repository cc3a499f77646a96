"""Short trainings of every learner, and what they came to: a digest of all bits, and some numbers.

    python -m tests.golden.learners        # writes learners.json; needed after a change of results

The digests hold for one version of JAX on one kind of CPU. Elsewhere the numbers are compared to a
tolerance, which is why trainings end after a few updates.
"""

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

import tests.conftest  # noqa: F401 - sets XLA's flags before JAX starts
from metaevo.parts import parameters
from purerl import dqn, envs, lpg, ppo, pqn, q_learning
from purerl.fast import use_cpu_arithmetic
from purerl.parts import evaluation, losses, optimizers, own_task
from tests.compiling import HAS_OTHER_EMITTERS
from tests.purerl import probes

FILE = Path(__file__).with_name("learners.json")
OPTIONS = {"xla_backend_optimization_level": 1}
if HAS_OTHER_EMITTERS:
    OPTIONS |= {"xla_cpu_use_fusion_emitters": True}
"""Compiled as `metaevo.devices` has it, because the last bits depend on it."""


class Case(NamedTuple):
    learner: Any
    hyperparams: Any
    env_params: Any
    meta_params: Any = None
    cpu_arithmetic: bool = True


def curious_optimizer(meta_params: Any, context: Any) -> optax.GradientTransformationExtraArgs:
    """Descend by steps that depend on every field of the context."""
    rate = context.hyperparams.learning_rate * meta_params

    def update(updates, state, params=None, *, context):
        dormancy = parameters.dormancy(context, params)
        epoch = 0.0 if context.epoch is None else context.epoch
        place = 1.0 + context.progress + 1e-4 * context.frames + epoch + context.minibatch
        place += jax.random.uniform(context.key)
        return jax.tree.map(lambda g, d: -rate * place * d * g, updates, dormancy), state

    return optax.GradientTransformationExtraArgs(optax.init_empty_state, update)


def _ppo(env: Any, env_params: Any, slots: dict[str, Any], hyperparams: Any, **config: Any) -> Case:
    sizes = {"total_timesteps": 3 * 64, "num_envs": 4, "num_steps": 16, "num_minibatches": 2}
    config = {**sizes, "update_epochs": 2, "hidden_sizes": (8, 8), **config}
    hyperparams = ppo.Hyperparams(**{"learning_rate": 3e-3, **hyperparams})
    return Case(ppo.PPO(ppo.Config(**config), env, **slots), hyperparams, env_params)


def _dqn(env: Any, env_params: Any, slots: dict[str, Any], hyperparams: Any, **config: Any) -> Case:
    sizes = {
        "total_timesteps": 5 * 48, "num_envs": 4, "num_steps": 12, "train_interval": 8,
        "batch_size": 16, "buffer_size": 100, "learning_starts": 40, "target_interval": 16,
        "hidden_sizes": (8, 8),
    }  # fmt: skip
    hyperparams = dqn.Hyperparams(**{"learning_rate": 3e-3, **hyperparams})
    return Case(dqn.DQN(dqn.Config(**{**sizes, **config}), env, **slots), hyperparams, env_params)


def _pqn(env: Any, env_params: Any, slots: dict[str, Any]) -> Case:
    sizes = {"total_timesteps": 3 * 64, "num_envs": 4, "num_steps": 16, "num_minibatches": 2}
    learner = pqn.PQN(pqn.Config(**sizes, update_epochs=3, hidden_sizes=(8, 8)), env, **slots)
    return Case(learner, pqn.Hyperparams(learning_rate=3e-3), env_params)


def _q_learning(hyperparams: Any, **config: Any) -> Case:
    env, env_params = envs.make("GridWorld", observations="index")
    config = {"total_timesteps": 400, "num_steps": 100, **config}
    learner = q_learning.QLearning(q_learning.Config(**config), env, losses.huber)
    return Case(learner, q_learning.Hyperparams(**hyperparams), env_params)


def _lpg(env: Any, env_params: Any, slots: dict[str, Any], **config: Any) -> Case:
    sizes = {"total_timesteps": 4 * 80, "num_envs": 8, "num_steps": 10}
    learner = lpg.LPG(lpg.Config(**{**sizes, **config}), env, **slots)
    return Case(learner, lpg.Hyperparams(), env_params)


def _distribution_rule(meta_params: Any, context: Any, trajectory: Any) -> Any:
    """Targets that are distributions, moved at random."""
    targets = lpg.a2c(meta_params, context, trajectory)
    noise = jax.random.normal(context.key, trajectory.prediction.shape)
    return targets._replace(prediction=trajectory.prediction + noise)


def cases() -> dict[str, Case]:
    cartpole = envs.make("CartPole-v1", max_steps_in_episode=12)
    pendulum = envs.make("Pendulum-v1", max_steps_in_episode=10)
    breakout = envs.make("Breakout-MinAtar")
    cycle = probes.Cycle(), probes.Cycle().default_params
    maze, maze_params = envs.make("GridWorlds", size=5)
    mazes = _ppo(maze, maze_params, {}, {})
    clipped = {"value_loss": losses.clipped_squared}
    normalized = {"normalize_observations": True, "normalize_rewards": True}
    recurrent = {"recurrent_size": 6, "num_minibatches": 2}
    found = {
        "ppo": _ppo(*cartpole, clipped, {}),
        "ppo-jax-arithmetic": _ppo(*cartpole, clipped, {})._replace(cpu_arithmetic=False),
        "ppo-linear-dpo": _ppo(
            *cartpole,
            {
                "policy_loss": losses.dpo,
                "schedule": optimizers.linear_schedule,
                "value_loss": losses.huber,
            },
            {"annealing_steps": 100.0},
            shared_network=True,
            layer_norm=True,
        ),
        "ppo-optimizer": _ppo(*cartpole, {"make_optimizer": curious_optimizer}, {})._replace(
            meta_params=jnp.float32(1.0)
        ),
        "ppo-continuous": _ppo(*pendulum, {}, {}, **normalized, normalize_advantages="batch"),
        "ppo-squashed": _ppo(
            *pendulum, {}, {}, squash_actions=True, state_dependent_std=True,
            normalize_advantages="none",
        ),
        "ppo-recurrent": _ppo(*cartpole, {}, {}, **recurrent, **normalized),
        "ppo-recurrent-shared": _ppo(*cycle, {}, {}, **recurrent, shared_network=True),
        "ppo-images": _ppo(
            *breakout, {"make_optimizer": optimizers.rmsprop}, {}, activation="relu"
        ),
        "ppo-own-task": mazes._replace(
            learner=own_task.OwnTask(mazes.learner, own_task.sampler(maze))
        ),
        "dqn": _dqn(*cartpole, {}, {}),
        "dqn-everything": _dqn(
            *cycle, {"value_loss": losses.huber, "schedule": optimizers.cosine_schedule},
            {"priority_exponent": 0.7}, double=True, dueling=True, n_step=3, gradient_steps=2,
            replay="prioritized", target_update="polyak",
        ),
        "dqn-double": _dqn(*cycle, {}, {"epsilon_end": None, "epsilon_start": 0.5}, double=True),
        "dqn-images": _dqn(*breakout, {}, {}, store_observations="uint8"),
        "dqn-optimizer": _dqn(*cartpole, {"make_optimizer": curious_optimizer}, {})._replace(
            meta_params=jnp.float32(1.0)
        ),
        "pqn": _pqn(*cartpole, {}),
        "pqn-images": _pqn(*breakout, {"value_loss": losses.expectile}),
        "q-learning": _q_learning({}),
        "q-learning-expected": _q_learning({"epsilon_end": 0.0}, target="expected_sarsa"),
        "q-learning-double": _q_learning({"initial_value": 1.0}, target="double"),
        "lpg": _lpg(*envs.make("GridWorld"), {}),
        "lpg-layers": _lpg(
            *cartpole, {"update_rule": _distribution_rule, "make_optimizer": optimizers.sgd},
            hidden_sizes=(8,), shortest_lifetime=0.4,
        ),
    }  # fmt: skip
    return found


def measure(case: Case) -> dict[str, Any]:
    learner, hyperparams, env_params, meta_params, cpu_arithmetic = case
    use_cpu_arithmetic(cpu_arithmetic)

    def run(key):
        result = learner.train(key, hyperparams, meta_params, env_params)
        policy = learner.policy(result.state)
        played = evaluation.evaluate(learner, policy, key, env_params, num_episodes=2, greedy=False)
        return result.episodes, result.metrics, policy, played

    try:
        keys = jax.random.split(jax.random.key(7), 2)
        compiled = jax.jit(jax.vmap(run), compiler_options=OPTIONS)
        episodes, metrics, policy, played = jax.device_get(compiled(keys))
    finally:
        use_cpu_arithmetic()
    numbers = {**episodes._asdict(), **metrics, "played": played}
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves((numbers, policy)):
        array = np.asarray(leaf)
        digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    means = {name: float(np.mean(each[:, :2])) for name, each in numbers.items() if each.ndim > 1}
    return {"digest": digest.hexdigest(), "means": means}


def platform() -> dict[str, str]:
    """Return what the bits depend on besides the code."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    features = next((line for line in lines if line.startswith("flags")), "")
    return {
        "jax": jax.__version__,
        "cpu": hashlib.sha256(features.encode()).hexdigest()[:16],
    }


def main() -> None:
    measured = {name: measure(case) for name, case in cases().items()}
    FILE.write_text(json.dumps({"platform": platform(), "cases": measured}, indent=1) + "\n")


if __name__ == "__main__":
    main()
