from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from examples.two_doors import TwoDoors
from metaevo.parts import parameters
from purerl import dqn, envs, ppo, pqn
from purerl.parts import optimizers, q_networks
from purerl.types import Context
from tests.purerl.probes import TargetAction

KEY = jax.random.key(0)
CARTPOLE = envs.make("CartPole-v1")[0]


class Counting(nn.Module):
    """Its memory has two arrays and does not begin with zeros."""

    actions: Any

    def initial_memory(self):
        return {"count": jnp.int32(3), "sum": jnp.full((2, 2), 0.5)}

    @nn.compact
    def __call__(self, obs, memory):
        x = nn.Dense(4)(obs["picture"].reshape(len(obs["picture"]), -1))
        x = x * nn.Dense(4)(obs["colour"]) + memory["sum"].reshape(-1, 4)
        memory = {"count": memory["count"] + 1, "sum": nn.tanh(x).reshape(-1, 2, 2)}
        value = nn.Dense(1)(x) * memory["count"][:, None]
        return nn.Dense(self.actions.n)(x), value, memory


def test_a_memory_along_whole_rollouts_is_that_of_acting():
    env, env_params = envs.make(TwoDoors, max_steps_in_episode=5)
    sizes = {"num_envs": 4, "num_steps": 16, "num_minibatches": 2, "total_timesteps": 128}
    learner = ppo.PPO(ppo.Config(network=Counting, **sizes), env)

    @jax.jit
    def rollout(key):
        state = learner.init(key, ppo.Hyperparams(), None, env_params)
        for _ in range(2):
            before = state
            state, seen, _ = learner.collect(state, env_params)
        context = learner.context(before, ppo.Hyperparams())
        _, batch = learner.make_batch(before, seen, context, None)
        policy, value = learner.replay(before.params, batch)
        *_, metrics = learner.update(state, ppo.Hyperparams(), None, env_params)
        return seen, batch, policy.log_prob(batch.transition.action), value, metrics

    seen, batch, log_prob, value, metrics = rollout(KEY)
    np.testing.assert_allclose(log_prob, batch.transition.log_prob, atol=1e-5)
    np.testing.assert_allclose(value, batch.value, rtol=1e-5, atol=1e-5)
    assert np.isfinite(metrics["value_loss"])
    count, start, ended = seen.memory["count"], learner.begin(), seen.done[:-1]
    assert ended.any()
    np.testing.assert_array_equal(count[1:], np.where(ended, start["count"], count[:-1] + 1))
    np.testing.assert_array_equal(seen.memory["sum"][1:][ended][0], start["sum"])


class Shaped(nn.Module):
    policy: Any = (2,)
    value: tuple[int, ...] | None = ()

    @nn.compact
    def __call__(self, obs):
        x = nn.Dense(1)(obs)
        zeros = lambda shape: jnp.zeros((len(x), *shape)) + x.reshape(-1, *(1,) * len(shape))  # noqa: E731
        pair = isinstance(self.policy, list | tuple) and isinstance(self.policy[0], tuple)
        head = tuple(map(zeros, self.policy)) if pair else zeros(self.policy)
        return head if self.value is None else (head, zeros(self.value))


class Forgetful(Shaped):
    def __call__(self, obs, memory):
        return (*super().__call__(obs), jnp.zeros((len(obs), 4)))


class Growing(Forgetful):
    begins: int = 3

    def initial_memory(self):
        return jnp.zeros(self.begins)


class Batched(Shaped):
    @nn.compact
    def __call__(self, obs):
        return super().__call__(nn.BatchNorm(use_running_average=True)(obs))


class Orthogonal(Shaped):
    @nn.compact
    def __call__(self, obs):
        return super().__call__(nn.Dense(3, kernel_init=nn.initializers.orthogonal())(obs))


def of_ppo(network, env=CARTPOLE, **changes):
    return lambda: ppo.PPO(ppo.Config(network=network, **changes), env)


def of_dqn(network, **changes):
    return lambda: dqn.DQN(dqn.Config(network=network, **changes), CARTPOLE)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (of_ppo("ResNet"), "network = 'ResNet': must be a flax module, or a function"),
        (of_ppo(lambda space: space.n), "returns one, not int"),
        (of_ppo(lambda space: space.m), "function of .* that returns one: AttributeError"),
        (of_ppo(Shaped((3,))), r"network = Shaped: .* \[B, 3\]: the actions need logits \[B, 2\]"),
        (of_ppo(Shaped((2,), (2,))), r"returns a value \[B, 2\]: must be \[B\]"),
        (of_ppo(Shaped((2,), None)), r"returns \[B, 2\]: must be policy parameters, value"),
        (of_ppo(Shaped(((1,), (2,))), TargetAction()), r"\[B, 2\]\): .* need a mean \[B, 1\] or"),
        (of_ppo(nn.Dense(2, param_dtype="no")), "network = Dense: fails for observations .B, 4.: "),
        (of_ppo(Forgetful()), r"'memory'; a memory needs initial_memory\(\)"),
        (of_ppo(Growing()), r"memory float32\[B, 4\]: must .* initial_memory, float32\[B, 3\]"),
        (of_ppo(Growing(begins=4), num_minibatches=8), "num_envs = 4 must be divis.*with a memory"),
        (of_ppo(Batched()), "has variables in 'batch_stats'"),
        (of_ppo(Orthogonal()), r"calls LAPACK \(qr\).*purerl.parts.networks.orthogonal"),
        (of_ppo(Shaped(), hidden_sizes=(8,)), r"hidden_sizes = \(8,\): has no effect"),
        (of_ppo(Shaped(), recurrent_size=8), "recurrent_size = 8: has no effect"),
        (of_ppo(Shaped(), squash_actions=True), "squash_actions .* continuous ones"),
        (of_dqn(Shaped((3,), None)), r"returns \[B, 3\]: must be the values \[B, 2\]"),
        (of_dqn(Growing()), "has a memory"),
        (of_dqn(Shaped(), dueling=True), "dueling = True: has no effect"),
    ],
)
def test_networks_that_do_not_fit(build, message):
    with pytest.raises(ValueError, match=message) as error:
        build()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("network", "env", "log_std"),
    [
        (Shaped((2,), (1,)), CARTPOLE, False),
        (Shaped((1,)), TargetAction(), True),
        (Shaped(((1,), (1,))), TargetAction(), False),
    ],
)
def test_outputs_of_all_kinds(network, env, log_std):
    model = of_ppo(network, env)().network
    obs = jnp.zeros((5, 2, *env.observation_space(env.default_params).shape))
    params = model.init(KEY, obs)
    assert ("log_std" in params) == log_std
    policy, value, memory = model.apply(params, obs)
    assert value.shape == policy.entropy().shape == (5, 2)
    assert memory is None


def test_features_of_the_parameters_of_another_network():
    learner = of_ppo(Shaped())()
    obs = jnp.zeros((1, 4))
    params = learner.network.init(KEY, obs)
    context = Context(None, observations=obs, network=learner.network)
    assert set(jax.tree.leaves(parameters.depth(params))) == {1.0}
    assert not any(jax.tree.leaves(parameters.of_policy(params)))
    for leaf in jax.tree.leaves(parameters.dormancy(context, params)):
        np.testing.assert_array_equal(leaf, 1.0)


@pytest.mark.parametrize("learner", [dqn, pqn])
def test_a_q_network(learner):
    config = learner.Config(network=lambda space: nn.Dense(space.n))
    train = learner.make_train(config, CARTPOLE, make_optimizer=optimizers.muon)
    arguments = KEY, learner.Hyperparams(), None, CARTPOLE.default_params
    assert jax.eval_shape(train, *arguments).state.params["params"]["kernel"].shape == (4, 2)
    assert q_networks.q_network(CARTPOLE, config, "DQN").num_actions == 2
