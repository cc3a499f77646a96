"""Others that install from PyPI, at our settings: rejax, and a PyTorch loop of our own.

rejax differs in what cannot be set from outside: one optimiser each for actor and critic, gradients
clipped by element, no annealing, another initialisation. None of that changes the products of
matrices that a step needs.
"""

import importlib
import importlib.util
import time
from collections.abc import Callable
from typing import Any

from experiments.benchmarks.processes import Variant, own, progress
from experiments.benchmarks.tasks import WORK, make_learner, timed

Measure = Callable[[int], dict[str, float]]
NEEDS = {"rejax": "rejax", "PyTorch": "torch", "Gymnasium": "gymnasium", "MinAtar": "minatar"}
"""Names of the peers and the packages without which they are left out."""
TORCH_UPDATES = {"CartPole-v1": 16, "Breakout-MinAtar": 2}
"""PyTorch is slow: a measurement is that short, at most."""


def available(name: str) -> bool:
    """Return whether a peer is installed; say so where it is not."""
    if importlib.util.find_spec(NEEDS[name]):
        return True
    progress(f"{name} is left out: {NEEDS[name]} is not installed")
    return False


def variants(learner: str, task: str, agents: int, updates: int) -> dict[str, Variant]:
    """Return the peers that can train this learner and are installed."""
    found = {}
    if available("rejax"):
        found["rejax"] = own(
            f"rejax_{learner}", default_flags=True, task=task, agents=agents, updates=updates
        )
    needed = ("PyTorch", "MinAtar") if task == "Breakout-MinAtar" else ("PyTorch",)
    if learner == "ppo" and agents == 1 and all(map(available, needed)):
        few = min(updates, TORCH_UPDATES[task])
        found["PyTorch"] = own("torch_ppo", default_flags=True, task=task, updates=few)
    return found


def _rejax(name: str, task: str, agents: int, **settings: Any) -> tuple[Measure, dict[str, Any]]:
    """Train agents under one flat `vmap`, without evaluations."""
    import jax

    from experiments.benchmarks.five_values import FiveValues
    from purerl import envs

    library: Any = importlib.import_module("rejax")
    env, env_params = envs.make(task, observations="flat")
    network = settings.pop("network", {})
    algorithm = library.get_algo(name).create(
        env=FiveValues(env), env_params=env_params, eval_freq=settings["total_timesteps"],
        skip_initial_evaluation=True, gamma=0.99, **settings,
    ).replace(eval_callback=lambda *_: (), **network)  # fmt: skip
    compiled = jax.jit(jax.vmap(algorithm.train))
    measure = timed(compiled, lambda i: jax.random.split(jax.random.key(i), agents))
    version = importlib.metadata.version("rejax")
    return measure, {"layout": "one device, default", "version": version}


def rejax_ppo(task: str, agents: int, updates: int) -> tuple[Measure, dict[str, Any]]:
    """Rejax's PPO."""
    learner, _, hyperparams = make_learner("ppo", task, updates)
    config = learner.config
    return _rejax(
        "ppo", task, agents, total_timesteps=updates * config.frames_per_update,
        num_envs=config.num_envs, num_steps=config.num_steps, num_epochs=config.update_epochs,
        num_minibatches=config.num_minibatches, learning_rate=hyperparams.learning_rate,
        max_grad_norm=hyperparams.max_grad_norm, gae_lambda=hyperparams.gae_lambda,
        clip_eps=hyperparams.clip_epsilon, vf_coef=hyperparams.vf_coef,
        ent_coef=hyperparams.entropy_coef,
        agent_kwargs={
            "activation": config.activation, "hidden_layer_sizes": config.hidden_sizes,
        },
    )  # fmt: skip


def rejax_dqn(task: str, agents: int, updates: int) -> tuple[Measure, dict[str, Any]]:
    """Rejax's DQN; its own networks are dueling, so it is given ours."""
    import flax.linen as nn

    networks: Any = importlib.import_module("rejax.networks")
    network = networks.EpsilonGreedyPolicy(networks.DiscreteQNetwork)(
        hidden_layer_sizes=(120, 84), action_dim=2, activation=nn.relu
    )
    return _rejax(
        "dqn", task, agents, total_timesteps=updates * WORK["dqn", task].frames_per_update,
        num_envs=10, num_epochs=1, buffer_size=10_000, batch_size=128, fill_buffer=1_000,
        target_update_freq=500, learning_rate=2.5e-4, max_grad_norm=10.0, ddqn=False,
        eps_end=0.05, exploration_fraction=0.5, network={"agent": network},
    )  # fmt: skip


def torch_ppo(task: str, updates: int) -> tuple[Measure, dict[str, Any]]:
    """Our PyTorch PPO in Gymnasium's environments, one agent."""
    from experiments.reproductions import gym_envs, torch_ppo

    learner, _, hyperparams = make_learner("ppo", task, updates)
    frames = updates * learner.config.frames_per_update

    def measure(repeat):
        vector = gym_envs.make_vector(task, learner.config.num_envs)
        start, cpu = time.perf_counter(), time.process_time()
        torch_ppo.train(learner.config, hyperparams, vector, repeat, lambda _: None)
        seconds = time.perf_counter() - start
        cpu = time.process_time() - cpu
        return {"seconds": seconds, "cpu_seconds": cpu, "amount": frames}

    return measure, {"layout": "one thread", "version": importlib.metadata.version("torch")}


WORKERS: dict[str, Callable[..., tuple[Measure, dict[str, Any]]]] = {
    "rejax_ppo": rejax_ppo,
    "rejax_dqn": rejax_dqn,
    "torch_ppo": torch_ppo,
}
