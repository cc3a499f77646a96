"""What the processes of the suites `ppo` and `dqn` run: training, ours and the references.

A worker sets up its devices, compiles, and returns a function that measures once.
"""

import importlib
import time
from collections.abc import Callable
from typing import Any

Measure = Callable[[int], dict[str, float]]


def _learner(name: str, updates: int) -> tuple[Any, Any, Any]:
    """A learner bound to CartPole-v1, its environment parameters and hyperparameters.

    PPO at CleanRL's settings and DQN at PureJaxRL's, the defaults of their `Config`s. Schedules
    anneal as in the whole run of which this is the beginning.
    """
    from purerl import dqn, envs, losses, ppo

    env, env_params = envs.make("CartPole-v1")
    frames = updates * frames_per_update(name)
    if name == "ppo":
        total = float(ppo.Config().total_timesteps)
        learner = ppo.PPO(ppo.Config(frames), env, value_loss=losses.clipped_squared)
        return learner, env_params, ppo.Hyperparams(annealing_steps=total)
    # A measurement is short: what it measures is learning, not waiting for 10,000 frames.
    config = dqn.Config(frames, learning_starts=1_000)
    total = float(dqn.Config().total_timesteps)
    hyperparams = dqn.Hyperparams(annealing_steps=total, epsilon_decay_steps=total / 2)
    return dqn.DQN(config, env), env_params, hyperparams


def frames_per_update(name: str) -> int:
    """Return the environment steps of an update of one agent."""
    return {"ppo": 4 * 128, "dqn": 10 * 100}[name]  # without starting JAX; checked by `_train`


def _train(name: str, updates: int) -> tuple[Any, Any, Any]:
    """`train` from a key to the mean return, the learner's task, and its hyperparameters."""
    from metaevo.problems.train_learner import Task
    from purerl.evaluation import mean_return

    learner, env_params, hyperparams = _learner(name, updates)
    assert learner.config.frames_per_update == frames_per_update(name)

    def train(key):
        return mean_return(learner.train(key, hyperparams, None, env_params).episodes)

    return train, Task("CartPole-v1", learner, env_params), hyperparams


def _timed(compiled: Callable[[Any], Any], make_input: Callable[[int], Any]) -> Measure:
    import jax

    def measure(repeat):
        argument = jax.block_until_ready(make_input(repeat))
        start, cpu = time.perf_counter(), time.process_time()
        jax.block_until_ready(compiled(argument))
        return {
            "seconds": time.perf_counter() - start,
            "cpu_seconds": time.process_time() - cpu,
        }

    return measure


def ours(
    learner: str, agents: int, updates: int, chunk_size: int | None
) -> tuple[Measure, dict[str, Any]]:
    """Agents dealt to one device a core, each of which trains chunk after chunk."""
    from metaevo import devices

    devices.setup()
    import jax

    from metaevo.problems.train_learner import working_set

    train, task, hyperparams = _train(learner, updates)
    count = min(len(jax.devices()), agents)
    size = chunk_size or devices.choose_chunk_size(
        agents, working_set(task, hyperparams, None), count
    )

    def train_all(key):
        return devices.map_rows(
            lambda row: train(jax.random.fold_in(key, row)),
            capacity=agents,
            num_rows=agents,
            chunk_size=size,
            num_devices=count,
        )

    compiled = devices.spread(train_all, num_devices=count)
    measure = _timed(compiled, lambda i: devices.replicate(jax.random.key(i), count))
    return measure, {"layout": f"{count} devices, chunks of {size}"}


def flat(
    learner: str, agents: int, updates: int, single_threaded: bool
) -> tuple[Measure, dict[str, Any]]:
    """A reference: the same `train` under one flat `vmap` on one device."""
    if single_threaded:
        from metaevo import devices

        devices.setup(num_devices=1)
    import jax

    train, _, _ = _train(learner, updates)
    compiled = jax.jit(jax.vmap(train))  # on the first device, whatever others there are
    measure = _timed(compiled, lambda i: jax.random.split(jax.random.key(i), agents))
    return measure, {"layout": "one device, " + ("one thread" if single_threaded else "default")}


def rejax(agents: int, updates: int) -> tuple[Measure, dict[str, Any]]:
    """A reference: rejax's DQN at the same settings and without its evaluations."""
    import flax.linen as nn
    import jax

    from experiments.benchmarks.five_values import FiveValues
    from purerl import envs

    library: Any = importlib.import_module("rejax")
    networks: Any = importlib.import_module("rejax.networks")
    env, env_params = envs.make("CartPole-v1")
    total = updates * frames_per_update("dqn")
    algorithm = library.get_algo("dqn").create(
        env=FiveValues(env), env_params=env_params, total_timesteps=total, eval_freq=total,
        num_envs=10, num_epochs=1, buffer_size=10_000, batch_size=128, fill_buffer=1_000,
        target_update_freq=500, learning_rate=2.5e-4, gamma=0.99, max_grad_norm=10.0, ddqn=False,
        eps_end=0.05, exploration_fraction=0.5, skip_initial_evaluation=True,
    )  # fmt: skip
    network = networks.EpsilonGreedyPolicy(networks.DiscreteQNetwork)(
        hidden_layer_sizes=(120, 84), action_dim=2, activation=nn.relu
    )
    algorithm = algorithm.replace(agent=network, eval_callback=lambda *_: ())
    compiled = jax.jit(jax.vmap(algorithm.train))
    measure = _timed(compiled, lambda i: jax.random.split(jax.random.key(i), agents))
    return measure, {"layout": "one device, default"}


WORKERS: dict[str, Callable[..., tuple[Measure, dict[str, Any]]]] = {
    "ours": ours,
    "flat": flat,
    "rejax": rejax,
}
