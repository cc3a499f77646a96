"""Peers from PyPI at the same settings: rejax.

Some differences in rejax are not configurable: separate optimisers for actor and critic, gradients
clipped by element, no annealing, a different initialisation. They do not change the matrix products
of a step.
"""

import importlib
import importlib.util
from typing import Any

from experiments.benchmarks.processes import progress
from experiments.benchmarks.tasks import WORK, make_learner
from experiments.benchmarks.work import Made, timed

NEEDS = {"rejax": "rejax", "Gymnasium": "gymnasium", "MinAtar": "minatar"}
"""Peers and the packages that they need."""


def available(name: str) -> bool:
    """Return whether a peer is installed; if not, print that it is left out."""
    if importlib.util.find_spec(NEEDS[name]):
        return True
    progress(f"{name} is left out: {NEEDS[name]} is not installed")
    return False


class FiveValues:
    """An environment with the interface before gymnax 1: `step` returns a single `done` flag."""

    def __init__(self, env: Any):
        """Wrap `env`."""
        self._env = env

    def __getattr__(self, name: str) -> Any:
        if name == "_env":  # missing while the object is being copied
            raise AttributeError(name)
        return getattr(self._env, name)

    def step(self, *arguments: Any) -> tuple:
        """Step, with termination and truncation in one flag."""
        obs, state, reward, terminated, truncated, info = self._env.step(*arguments)
        return obs, state, reward, terminated | truncated, info


def _rejax(name: str, task: str, agents: int, updates: int, **settings: Any) -> Made:
    """Train agents under one flat `vmap`, without evaluations."""
    import jax

    from purerl import envs

    library: Any = importlib.import_module("rejax")
    env, env_params = envs.make(task, observations="flat")
    network = settings.pop("network", {})
    frames = updates * WORK[name, task].frames_per_update
    algorithm = library.get_algo(name).create(
        env=FiveValues(env), env_params=env_params, total_timesteps=frames, eval_freq=frames,
        skip_initial_evaluation=True, gamma=0.99, **settings,
    ).replace(eval_callback=lambda *_: (), **network)  # fmt: skip
    compiled = jax.jit(jax.vmap(algorithm.train))
    measure = timed(
        compiled, lambda i: jax.random.split(jax.random.key(i), agents), agents * frames
    )
    version = importlib.metadata.version("rejax")
    return measure, {"layout": "one device, default", "version": version}


def rejax_ppo(learner: str, task: str, agents: int, updates: int) -> Made:
    """Rejax's PPO."""
    ours, _, hyperparams = make_learner(learner, task, updates)
    config = ours.config
    return _rejax(
        learner, task, agents, updates,
        num_envs=config.num_envs, num_steps=config.num_steps, num_epochs=config.update_epochs,
        num_minibatches=config.num_minibatches, learning_rate=hyperparams.learning_rate,
        max_grad_norm=hyperparams.max_grad_norm, gae_lambda=hyperparams.gae_lambda,
        clip_eps=hyperparams.clip_epsilon, vf_coef=hyperparams.vf_coef,
        ent_coef=hyperparams.entropy_coef,
        agent_kwargs={
            "activation": config.activation, "hidden_layer_sizes": config.hidden_sizes,
        },
    )  # fmt: skip


def rejax_dqn(learner: str, task: str, agents: int, updates: int) -> Made:
    """Rejax's DQN with purerl's network, because rejax only has dueling networks."""
    import flax.linen as nn

    networks: Any = importlib.import_module("rejax.networks")
    network = networks.EpsilonGreedyPolicy(networks.DiscreteQNetwork)(
        hidden_layer_sizes=(120, 84), action_dim=2, activation=nn.relu
    )
    return _rejax(
        learner, task, agents, updates,
        num_envs=10, num_epochs=1, buffer_size=10_000, batch_size=128, fill_buffer=1_000,
        target_update_freq=500, learning_rate=2.5e-4, max_grad_norm=10.0, ddqn=False,
        eps_end=0.05, exploration_fraction=0.5, network={"agent": network},
    )  # fmt: skip
