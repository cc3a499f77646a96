"""Disco103, the learned update rule of DiscoRL (Oh et al. 2025), as a function of its weights.

"Discovering state-of-the-art reinforcement learning algorithms", Nature. The rule sees trajectories
of an agent and returns a target for each of its outputs. It has two parts: an LSTM that runs
backwards along every trajectory, and another whose memory lasts for the agent's lifetime and
scales the outputs of the first. Both share their weights between actions, so the rule works for any
number of actions. The targets of action values are not learned: they are Retrace's (Munos et al.
2016).

Axes: `T` steps, `B` trajectories, `A` actions, `Y` the size of the predictions y and z (600).
"""

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.types import SettingError

FILE = "disco_rl/update_rules/weights/disco_103.npz"
"""The authors' weights in github.com/google-deepmind/disco_rl (Apache-2.0)."""
SHA256 = "dac840a15b81e8805326363458c33979626172618f620d9e6e170315388530aa"
"""Of that file."""

BINS = 601
"""Classes of an action value."""
MAX_VALUE = 300.0
"""The largest action value, after `squash`."""
ADVANTAGE_DECAY = 0.99
"""Of the moments by which advantages are normalised."""

LIFETIME = "lstm/~/meta_lstm/~unroll/"
"""Beginning of the names of the weights that only change the lifetime's memory."""

Weights = Mapping[str, jax.Array]
"""Arrays by their names in the authors' file."""


class Outputs(NamedTuple):
    """Outputs of an agent's network."""

    logits: jax.Array
    """[..., A] of the policy"""
    y: jax.Array
    """[..., Y] logits of a prediction for the state, to which only the rule gives a meaning"""
    z: jax.Array
    """[..., A, Y] the same for every action"""
    q: jax.Array
    """[..., A, BINS] logits of the value of every action"""
    next_logits: jax.Array
    """[..., A, A] logits of the policy after every action"""


class Trajectory(NamedTuple):
    """Steps of T actions, without observations."""

    action: jax.Array
    """[T, B] int32"""
    reward: jax.Array
    """[T, B]"""
    done: jax.Array
    """[T, B] bool, whether the episode ended; a time limit counts as an end"""
    logits: jax.Array
    """[T, B, A] of the policy that acted"""


class Memory(NamedTuple):
    """Memory of the rule, of one agent's lifetime."""

    hidden: jax.Array
    cell: jax.Array
    mean: jax.Array
    """[] moving mean of the advantages, biased towards 0"""
    square: jax.Array
    """[] the same for their squares"""
    bias: jax.Array
    """[] weight of the initial zeros in both"""


class Targets(NamedTuple):
    """Output of the rule."""

    logits: jax.Array
    """[T, B, A] for the policy"""
    y: jax.Array
    """[T, B, Y]"""
    z: jax.Array
    """[T, B, Y] for z of the actions taken"""
    q: jax.Array
    """[T, B] values of the actions taken"""


class _Values(NamedTuple):
    """Action values of the target network, and what follows from them."""

    value: jax.Array
    """[T + 1, B] of the states, by the agent's own action values"""
    q: jax.Array
    """[T + 1, B, A]"""
    q_target: jax.Array
    """[T, B]"""
    advantage: jax.Array
    """[T, B] of the actions taken, by `q_target`"""
    advantages: jax.Array
    """[T + 1, B, A] of all actions, by `q`"""


def read(path: str) -> Weights:
    """Return the authors' weights from their file.

    Raises:
        SettingError: if it cannot be read, or is not that file.
    """
    where = f"github.com/google-deepmind/disco_rl, {FILE}"
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise SettingError(
            f"weights = {path!r}: {reason}; must be a copy of the file {where}"
        ) from None
    digest = hashlib.sha256(content).hexdigest()
    if digest != SHA256:
        raise SettingError(
            f"weights = {path!r}: its SHA-256 begins with {digest[:8]}: must be an unaltered copy "
            f"of {where} ({SHA256[:8]})"
        )
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def prediction_size(weights: Weights) -> int:
    """Return the size of the predictions y and z."""
    return len(weights["lstm/linear_2/b"])


def begin(weights: Weights) -> Memory:
    """Return the memory of a new agent."""
    zero, zeros = jnp.zeros(()), jnp.zeros(len(weights[LIFETIME + "lstm/linear/b"]) // 4)
    return Memory(zeros, zeros, zero, zero, jnp.ones(()))


def apply(
    weights: Weights,
    memory: Memory,
    agent: Outputs,
    target: Outputs,
    trajectory: Trajectory,
    gamma: jax.Array | float,
    trace: jax.Array | float,
) -> tuple[Targets, Memory]:
    """Return targets for an agent, and the next memory.

    Args:
        weights: of the rule.
        memory: of the agent's lifetime.
        agent: outputs [T + 1, B, ...] at all observations, the one after the last step included.
        target: the same of the target network.
        trajectory: [T, B, ...]
        gamma: discount factor of the action values.
        trace: decay of Retrace.
    """
    values = _values(agent, target, trajectory, gamma, trace)
    mean = _average(memory.mean, jnp.mean(values.advantage))
    square = _average(memory.square, jnp.mean(jnp.square(values.advantage)))
    bias = _average(memory.bias, 0.0)
    center = mean / (1.0 - bias)
    variance = jnp.maximum(square / (1.0 - bias) - jnp.square(center), 0.0)
    scale = jnp.sqrt(variance + 1e-12) + 1e-6

    def see(where: str) -> tuple[jax.Array, jax.Array]:
        return _inputs(weights, where, agent, target, trajectory, values, center, scale)

    inputs, of_actions = see("lstm/")
    x = _backwards(weights, inputs, trajectory.done)
    x *= jnp.broadcast_to(_linear(weights, "lstm/linear", memory.hidden), x.shape)
    y, z = (_linear(weights, f"lstm/linear_{index}", x) for index in (2, 3))
    x_of_actions = jnp.broadcast_to(x[:, :, None], (*of_actions.shape[:-1], x.shape[-1]))
    of_actions = jnp.concatenate([x_of_actions, of_actions], axis=-1)
    of_actions = _mix_actions(weights, "lstm/sequential_1/conv1_d", of_actions)
    logits = _linear(weights, "lstm/linear_4", of_actions)[..., 0]

    inputs, _ = see(LIFETIME)
    summary = _linear(weights, "lstm/linear_1", x)[..., 0]
    expected = _embed(weights, LIFETIME + "mlp", y)
    inputs = jnp.concatenate([inputs, jnp.stack([summary, expected], axis=-1)], axis=-1)
    event = jnp.mean(_linear(weights, LIFETIME + "mlp_2/~/linear_0", inputs), axis=(0, 1))
    gates = _linear(weights, LIFETIME + "lstm/linear", jnp.concatenate([event, memory.hidden]))
    hidden, cell = lstm(gates, memory.cell)
    return Targets(logits, y, z, values.q_target), Memory(hidden, cell, mean, square, bias)


def loss(agent: Outputs, targets: Targets, trajectory: Trajectory) -> dict[str, jax.Array]:
    """Return the losses [T, B] of an agent's outputs [T + 1, B, ...] by their names."""
    here = Outputs(*(x[:-1] for x in agent))
    num_actions = here.logits.shape[-1]
    taken = jax.nn.one_hot(trajectory.action, num_actions)[..., None]
    z, q, next_logits = (jnp.sum(taken * x, axis=2) for x in (here.z, here.q, here.next_logits))
    following = jax.lax.stop_gradient(agent.logits[1:])
    bins = two_hot(squash(targets.q))
    return {
        "policy_loss": _divergence(targets.logits, here.logits),
        "y_loss": _divergence(targets.y, here.y),
        "z_loss": _divergence(targets.z, z),
        "next_policy_loss": jnp.where(trajectory.done, 0.0, _divergence(following, next_logits)),
        "q_loss": -jnp.sum(bins * jax.nn.log_softmax(q), axis=-1),
    }


def lstm(gates: jax.Array, cell: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the next output and cell [..., H] of an LSTM from its gates [..., 4 H]."""
    enter, new, keep, leave = jnp.split(gates, 4, axis=-1)
    cell = jax.nn.sigmoid(keep + 1.0) * cell + jax.nn.sigmoid(enter) * jnp.tanh(new)
    return jax.nn.sigmoid(leave) * jnp.tanh(cell), cell


def squash(x: jax.Array) -> jax.Array:
    """Scale values down: sign(x) (sqrt(|x| + 1) - 1) + 0.001 x (Pohlen et al. 2018)."""
    return jnp.sign(x) * (jnp.sqrt(jnp.abs(x) + 1.0) - 1.0) + 1e-3 * x


def unsquash(x: jax.Array) -> jax.Array:
    """Invert `squash`."""
    a = 1.001 + jnp.abs(x)
    root = 2.0 * a / (1.0 + jnp.sqrt(1.0 + 4e-3 * a))  # a difference would lose digits
    return jnp.sign(x) * (jnp.square(root) - 1.0)


def two_hot(x: jax.Array) -> jax.Array:
    """Return the distribution [..., BINS] over the two bins next to numbers [...]."""
    place = (jnp.clip(x, -MAX_VALUE, MAX_VALUE) + MAX_VALUE) * (BINS - 1) / (2.0 * MAX_VALUE)
    lower = jnp.floor(place).astype(jnp.int32)
    share = (lower + 1 - place) / 1.00001  # as in the authors' code
    below, above = (jax.nn.one_hot(lower + i, BINS) for i in (0, 1))
    return share[..., None] * below + (1.0 - share[..., None]) * above


def _values(
    agent: Outputs,
    target: Outputs,
    trajectory: Trajectory,
    gamma: jax.Array | float,
    trace: jax.Array | float,
) -> _Values:
    """Return all action values, and Retrace's targets for the actions taken."""
    policy = jax.nn.softmax(agent.logits)
    taken = jax.nn.one_hot(trajectory.action, policy.shape[-1])
    support = jnp.linspace(-MAX_VALUE, MAX_VALUE, BINS)
    own_q, q = (unsquash(jax.nn.softmax(each.q) @ support) for each in (agent, target))
    value = jnp.sum(policy * q, axis=-1)
    q_taken = jnp.sum(taken * q[:-1], axis=-1)
    behaviour = jax.nn.log_softmax(trajectory.logits)
    log_ratio = jnp.sum(taken * (jax.nn.log_softmax(agent.logits[:-1]) - behaviour), axis=-1)
    carry = trace * jnp.minimum(jnp.exp(log_ratio), 1.0)
    discount = gamma * (1.0 - trajectory.done)

    def step(surprise, inputs):
        reward, discount, next_value, q, carry = inputs
        q_target = reward + discount * (next_value + surprise)
        return carry * (q_target - q), q_target

    inputs = trajectory.reward, discount, value[1:], q_taken, carry
    _, q_target = jax.lax.scan(step, jnp.zeros_like(value[0]), inputs, reverse=True)
    return _Values(
        jnp.sum(policy * own_q, axis=-1), q, q_target, q_target - value[:-1], q - value[..., None]
    )


def _inputs(
    weights: Weights,
    where: str,
    agent: Outputs,
    target: Outputs,
    trajectory: Trajectory,
    values: _Values,
    center: jax.Array,
    scale: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Return all inputs [T, B, I] of a network, and features [T, B, A, C] of the actions."""
    policy, target_policy = jax.nn.softmax(agent.logits), jax.nn.softmax(target.logits)
    behaviour = jax.nn.softmax(trajectory.logits)
    taken = jax.nn.one_hot(trajectory.action, policy.shape[-1])

    def of_taken(x: jax.Array) -> jax.Array:
        return jnp.sum(taken * x, axis=-1)

    def pair(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return x[:-1], x[1:]

    def of_states(z: jax.Array) -> tuple[jax.Array, ...]:
        return of_taken(z[:-1]), *pair(jnp.sum(policy * z, axis=-1)), *pair(jnp.max(z, axis=-1))

    y, target_y = (_embed(weights, where + "mlp", each.y) for each in (agent, target))
    z, target_z = (_embed(weights, where + "mlp_1", each.z) for each in (agent, target))
    numbers = [
        of_taken(policy[:-1]),
        of_taken(behaviour),
        _signed_log(trajectory.reward),
        1.0 - trajectory.done,
        *pair(_signed_log(values.value)),
        _signed_log(values.advantage),
        (values.advantage - center) / scale,
        of_taken(target_policy[:-1]),
        *pair(y),
        *pair(target_y),
        *of_states(z),
        *of_states(target_z),
    ]
    channels = [
        policy[:-1],
        behaviour,
        target_policy[:-1],
        z[:-1],
        target_z[:-1],
        _signed_log(values.q[:-1]),
        _signed_log(values.advantages[:-1]),
        (values.advantages[:-1] - center) / scale,
        taken,
    ]
    of_actions = jnp.stack(channels, axis=-1)
    for layer in ("conv1_d", "conv1_d_1"):
        of_actions = _mix_actions(weights, f"{where}sequential/{layer}", of_actions)
    mean, chosen = jnp.mean(of_actions, axis=2), jnp.sum(taken[..., None] * of_actions, axis=2)
    return jnp.concatenate([jnp.stack(numbers, axis=-1), mean, chosen], axis=-1), of_actions


def _backwards(weights: Weights, inputs: jax.Array, done: jax.Array) -> jax.Array:
    """Return the outputs [T, B, H] of the LSTM that runs from the last step to the first."""
    kernel, bias = weights["lstm/lstm/linear/w"], weights["lstm/lstm/linear/b"]
    size = inputs.shape[-1]

    def step(carry, inputs):
        gates, done = inputs
        hidden, cell = jax.tree.map(lambda x: jnp.where(done[:, None], 0.0, x), carry)
        carry = lstm(gates + hidden @ kernel[size:], cell)
        return carry, carry[0]

    gates = _add(inputs @ kernel[:size], bias)
    zeros = jnp.zeros((inputs.shape[1], len(bias) // 4), gates.dtype)
    return jax.lax.scan(step, (zeros, zeros), (gates, done), reverse=True)[1]


def _linear(weights: Weights, name: str, x: jax.Array) -> jax.Array:
    return _add(x @ weights[f"{name}/w"], weights[f"{name}/b"])


def _add(x: jax.Array, bias: jax.Array) -> jax.Array:
    return x + jnp.broadcast_to(bias, x.shape)


def _embed(weights: Weights, name: str, logits: jax.Array) -> jax.Array:
    """Return one number [...] for each distribution, from its logits [..., Y]."""
    hidden = jax.nn.relu(_linear(weights, f"{name}/~/linear_0", jax.nn.softmax(logits)))
    return _linear(weights, f"{name}/~/linear_1", hidden)[..., 0]


def _mix_actions(weights: Weights, name: str, x: jax.Array) -> jax.Array:
    """Apply a layer to the features [T, B, A, C] of every action and their mean over actions."""
    mean = jnp.broadcast_to(jnp.mean(x, axis=2, keepdims=True), x.shape)
    kernel = weights[f"{name}/w"][0]  # a convolution of width 1
    features = jnp.concatenate([x, mean], axis=-1) @ kernel
    return jax.nn.relu(_add(features, weights[f"{name}/b"]))


def _average(old: jax.Array, new: jax.Array | float) -> jax.Array:
    return ADVANTAGE_DECAY * old + (1.0 - ADVANTAGE_DECAY) * new


def _signed_log(x: jax.Array) -> jax.Array:
    return jnp.sign(x) * jnp.log1p(jnp.abs(x))


def _divergence(target: jax.Array, logits: jax.Array) -> jax.Array:
    """Return KL(target || prediction) [...] of logits [..., classes]."""
    log_target, log_prob = jax.nn.log_softmax(target), jax.nn.log_softmax(logits)
    return jnp.sum(jnp.exp(log_target) * (log_target - log_prob), axis=-1)
