import jax
import pytest

from purerl import dqn, envs, lpg, ppo, pqn, q_learning, sac
from tests.purerl import probes
from tests.purerl.test_nested import Nested


def continuous():
    return envs.make("Pendulum-v1")[0]


ONES = dict.fromkeys(("num_envs", "num_steps", "num_minibatches"), 1)
DQN = {
    "total_timesteps": 288, "num_envs": 4, "num_steps": 6, "train_interval": 8, "batch_size": 16,
    "buffer_size": 72, "learning_starts": 24,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "settings", "message"),
    [
        (ppo.Config, {"total_timesteps": 511}, "must be at least one update, .* = 512"),
        (ppo.Config, {"num_minibatches": 5}, "num_envs x num_steps = 512 must be divisible by"),
        (ppo.Config, {"num_minibatches": 8, "recurrent_size": 3}, "num_envs = 4 must be divisible"),
        (ppo.Config, {"num_minibatches": 512}, "num_envs x num_steps / num_minibatches = 1 must"),
        (ppo.Config, {"num_steps": 1, "recurrent_size": 3}, "num_steps / num_minibatches = 1 must"),
        (ppo.Config, {**ONES, "normalize_advantages": "batch"}, "num_envs x num_steps = 1 must"),
        (
            ppo.Config,
            {"activation": "sigmoid"},
            "activation = 'sigmoid': must be one of tanh, relu",
        ),
        (dqn.Config, {**DQN, "total_timesteps": 23}, "must be at least one update, .* = 24"),
        (dqn.Config, {**DQN, "train_interval": 6}, "6 must be a multiple of num_envs = 4"),
        (dqn.Config, {**DQN, "n_step": 4}, "learning_starts = 24 must be .* 12 that wait"),
        (pqn.Config, {"num_minibatches": 5}, "num_envs x num_steps = 2048 must be divisible by"),
        (q_learning.Config, {"total_timesteps": 10, "num_steps": 20}, "total_timesteps = 10"),
        (lpg.Config, {"total_timesteps": 10}, "total_timesteps = 10 must be at least one update"),
    ],
)
def test_settings_that_do_not_fit(config, settings, message):
    with pytest.raises(ValueError, match=message) as error:
        config(**settings)
    assert "\n" not in str(error.value)


def test_observations_that_do_not_fit_their_storage():
    config = dqn.Config(store_observations="uint8")
    dqn.DQN(config, envs.make("Breakout-MinAtar")[0])
    with pytest.raises(ValueError, match="store_observations = uint8: CartPole"):
        dqn.DQN(config, envs.make("CartPole-v1")[0])


@pytest.mark.parametrize("normalize", ["batch", "none"])
def test_minibatches_of_one_sample_without_statistics_of_their_own(normalize):
    ppo.Config(num_minibatches=512, normalize_advantages=normalize)


@pytest.mark.parametrize(
    ("module", "make_env", "message"),
    [
        (ppo, probes.GridAction, "GridAction: PPO needs a discrete or a vector action space"),
        (dqn, probes.GridAction, "GridAction: DQN needs a discrete action space"),
        (dqn, probes.TargetAction, "TargetAction: DQN needs a discrete action space"),
        (pqn, probes.TargetAction, "TargetAction: PQN needs a discrete action space"),
        (lpg, continuous, "Pendulum-v1: LPG needs a discrete action space"),
        (sac, probes.Cycle, "SAC needs continuous actions"),
        (q_learning, probes.Cycle, "Cycle.*discrete observations"),
        (q_learning, continuous, "Pendulum-v1"),
        *((module, Nested, r"Nested: .*Dict") for module in (ppo, dqn, pqn, lpg, q_learning)),
    ],
)
def test_environments_that_do_not_fit(module, make_env, message):
    with pytest.raises(ValueError, match=message) as error:
        jax.eval_shape(
            module.make_train(module.Config(), make_env()),
            jax.random.key(0),
            module.Hyperparams(),
            None,
            probes.Params(),
        )
    assert "\n" not in str(error.value)
