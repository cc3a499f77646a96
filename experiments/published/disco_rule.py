"""Disco103, the learned update rule of DiscoRL (Oh et al. 2025), as a function of its weights.

"Discovering state-of-the-art reinforcement learning algorithms", Nature. An LSTM runs backwards
along every trajectory, and another, whose memory lasts for the agent's lifetime, scales its
outputs. Both share their weights between actions, so the rule works for any number of them.
The targets of action values are not learned: they are Retrace's (Munos et al. 2016).

Axes: `T` steps, `B` trajectories, `A` actions, `Y` the size of the predictions y and z (600).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from purerl.parts.policies import Categorical

BINS = 601
"""Classes of an action value."""
MAX_VALUE = 300.0
"""The largest action value, scaled down; see `unsquash`."""
TRACE = 0.95
"""Decay of Retrace."""
VALUE_COEF = 0.2
"""Weight of the action values' loss."""
MOMENTS = optax.ema(0.99)
"""Means of the advantages and their squares, by which advantages are normalised."""
LIFETIME = "lstm/~/meta_lstm/~unroll/"
"""Beginning of the names of the weights that only change the lifetime's memory."""

Weights = dict[str, jax.Array]
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
    """Steps of T actions: [C, T, ...] in the replay memory, [T, B, ...] in a minibatch."""

    obs: jax.Array
    """[T + 1, B, *obs_shape]: the last is the one to act on next"""
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
    moments: optax.EmaState


def begin(weights: Weights) -> Memory:
    """Return the memory of a new agent."""
    zeros = jnp.zeros(len(weights[LIFETIME + "lstm/linear/b"]) // 4)
    return Memory(zeros, zeros, MOMENTS.init(jnp.zeros(2)))


def apply(
    weights: Weights,
    memory: Memory,
    agent: Outputs,
    target: Outputs,
    steps: Trajectory,
    gamma: jax.Array | float,
) -> tuple[Outputs, Memory]:
    """Return targets [T, B, ...] for an agent's outputs after its actions, and the next memory.

    Outputs [T + 1, B, ...] of the agent and of the target network include those at the observation
    after the last step. Targets of q are values, not logits.
    """
    own_value, q, value, q_target = _values(agent, target, steps, gamma)
    advantage, advantages = q_target - value[:-1], q - value[..., None]
    seen = jnp.stack([jnp.mean(advantage), jnp.mean(jnp.square(advantage))])
    (center, square), moments = MOMENTS.update(seen, memory.moments)
    scale = jnp.sqrt(jnp.maximum(square - jnp.square(center), 0.0) + 1e-12) + 1e-6
    policy, target_policy, behaviour = (jax.nn.softmax(x.logits) for x in (agent, target, steps))
    taken = jax.nn.one_hot(steps.action, policy.shape[-1])

    def of_taken(x):
        return jnp.sum(taken * x[: len(taken)], axis=-1)

    def pair(x):
        return x[:-1], x[1:]

    def of_states(z):
        return of_taken(z), *pair(jnp.sum(policy * z, axis=-1)), *pair(jnp.max(z, axis=-1))

    def see(where):
        """Return all inputs [T, B, I] of a network, and features [T, B, A, C] of the actions."""
        y, target_y = (_embed(weights, where + "mlp", each.y) for each in (agent, target))
        z, target_z = (_embed(weights, where + "mlp_1", each.z) for each in (agent, target))
        numbers = [of_taken(policy), of_taken(behaviour), _signed_log(steps.reward)]
        numbers += [1.0 - steps.done, *pair(_signed_log(own_value)), _signed_log(advantage)]
        numbers += [(advantage - center) / scale, of_taken(target_policy)]
        numbers += [*pair(y), *pair(target_y), *of_states(z), *of_states(target_z)]
        channels = [policy, behaviour, target_policy, z, target_z, _signed_log(q)]
        channels += [_signed_log(advantages), (advantages - center) / scale, taken]
        of_actions = jnp.stack([x[: len(taken)] for x in channels], axis=-1)
        for layer in ("conv1_d", "conv1_d_1"):
            of_actions = _mix_actions(weights, f"{where}sequential/{layer}", of_actions)
        pooled = jnp.mean(of_actions, axis=2), jnp.sum(taken[..., None] * of_actions, axis=2)
        return jnp.concatenate([jnp.stack(numbers, axis=-1), *pooled], axis=-1), of_actions

    inputs, of_actions = see("lstm/")
    x = _backwards(weights, inputs, steps.done) * _linear(weights, "lstm/linear", memory.hidden)
    y, z = (_linear(weights, f"lstm/linear_{index}", x) for index in (2, 3))
    x_of_actions = jnp.broadcast_to(x[:, :, None], (*of_actions.shape[:-1], x.shape[-1]))
    of_actions = jnp.concatenate([x_of_actions, of_actions], axis=-1)
    of_actions = _mix_actions(weights, "lstm/sequential_1/conv1_d", of_actions)
    logits = _linear(weights, "lstm/linear_4", of_actions)[..., 0]

    summary = _linear(weights, "lstm/linear_1", x)
    expected = _embed(weights, LIFETIME + "mlp", y)[..., None]
    inputs = jnp.concatenate([see(LIFETIME)[0], summary, expected], axis=-1)
    event = jnp.mean(_linear(weights, LIFETIME + "mlp_2/~/linear_0", inputs), axis=(0, 1))
    gates = _linear(weights, LIFETIME + "lstm/linear", jnp.concatenate([event, memory.hidden]))
    hidden, cell = lstm(gates, memory.cell)
    targets = Outputs(logits, y, z, q_target, jax.lax.stop_gradient(agent.logits[1:]))
    return targets, Memory(hidden, cell, moments)


def loss(agent: Outputs, targets: Outputs, steps: Trajectory) -> dict[str, jax.Array]:
    """Return the losses [T, B] of an agent's outputs [T + 1, B, ...] by their names."""
    here = Outputs(*(x[:-1] for x in agent))
    taken = jax.nn.one_hot(steps.action, here.logits.shape[-1])[..., None]
    z, q, next_logits = (jnp.sum(taken * x, axis=2) for x in (here.z, here.q, here.next_logits))
    next_loss = _divergence(targets.next_logits, next_logits)
    return {
        "policy_loss": _divergence(targets.logits, here.logits),
        "y_loss": _divergence(targets.y, here.y),
        "z_loss": _divergence(targets.z, z),
        "next_policy_loss": jnp.where(steps.done, 0.0, next_loss),
        "q_loss": VALUE_COEF * optax.softmax_cross_entropy(q, two_hot(targets.q)),
    }


def lstm(gates: jax.Array, cell: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the next output and cell [..., H] of an LSTM from its gates [..., 4 H]."""
    enter, new, keep, leave = jnp.split(gates, 4, axis=-1)
    cell = jax.nn.sigmoid(keep + 1.0) * cell + jax.nn.sigmoid(enter) * jnp.tanh(new)
    return jax.nn.sigmoid(leave) * jnp.tanh(cell), cell


def unsquash(x: jax.Array) -> jax.Array:
    """Invert the scaling sign(x) (sqrt(|x| + 1) - 1) + 0.001 x (Pohlen et al. 2018)."""
    a = 1.001 + jnp.abs(x)
    root = 2.0 * a / (1.0 + jnp.sqrt(1.0 + 4e-3 * a))  # a difference would lose digits
    return jnp.sign(x) * (jnp.square(root) - 1.0)


def two_hot(x: jax.Array) -> jax.Array:
    """Return the distribution [..., BINS] over the two bins next to values [...], scaled down."""
    x = jnp.sign(x) * (jnp.sqrt(jnp.abs(x) + 1.0) - 1.0) + 1e-3 * x
    place = (jnp.clip(x, -MAX_VALUE, MAX_VALUE) + MAX_VALUE) * (BINS - 1) / (2.0 * MAX_VALUE)
    lower = jnp.floor(place).astype(jnp.int32)
    share = ((lower + 1 - place) / 1.00001)[..., None]  # as in the authors' code
    below, above = (jax.nn.one_hot(lower + i, BINS) for i in (0, 1))
    return share * below + (1.0 - share) * above


def _values(
    agent: Outputs, target: Outputs, steps: Trajectory, gamma: jax.Array | float
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Return values by the agent [T + 1, B], the target's of actions and states, and Retrace's."""
    policy = jax.nn.softmax(agent.logits)
    support = jnp.linspace(-MAX_VALUE, MAX_VALUE, BINS)
    own_q, q = (unsquash(jax.nn.softmax(each.q) @ support) for each in (agent, target))
    own_value, value = (jnp.sum(policy * each, axis=-1) for each in (own_q, q))
    before, now = Categorical(steps.logits), Categorical(agent.logits[:-1])
    ratio = jnp.exp(now.log_prob(steps.action) - before.log_prob(steps.action))
    carry = TRACE * jnp.minimum(ratio, 1.0)

    def step(surprise, inputs):
        reward, discount, next_value, q, carry = inputs
        q_target = reward + discount * (next_value + surprise)
        return carry * (q_target - q), q_target

    q_taken = jnp.take_along_axis(q[:-1], steps.action[..., None], axis=-1)[..., 0]
    inputs = steps.reward, gamma * (1.0 - steps.done), value[1:], q_taken, carry
    _, q_target = jax.lax.scan(step, jnp.zeros_like(value[0]), inputs, reverse=True)
    return own_value, q, value, q_target


def _backwards(weights: Weights, inputs: jax.Array, done: jax.Array) -> jax.Array:
    """Return the outputs [T, B, H] of the LSTM that runs from the last step to the first."""
    kernel, bias = weights["lstm/lstm/linear/w"], weights["lstm/lstm/linear/b"]
    size = inputs.shape[-1]

    def step(carry, inputs):
        gates, done = inputs
        hidden, cell = jax.tree.map(lambda x: jnp.where(done[:, None], 0.0, x), carry)
        carry = lstm(gates + hidden @ kernel[size:], cell)
        return carry, carry[0]

    gates = inputs @ kernel[:size] + bias
    zeros = jnp.zeros((inputs.shape[1], len(bias) // 4), gates.dtype)
    return jax.lax.scan(step, (zeros, zeros), (gates, done), reverse=True)[1]


def _linear(weights: Weights, name: str, x: jax.Array) -> jax.Array:
    return x @ weights[f"{name}/w"] + weights[f"{name}/b"]


def _embed(weights: Weights, name: str, logits: jax.Array) -> jax.Array:
    """Return one number [...] for each distribution, from its logits [..., Y]."""
    hidden = jax.nn.relu(_linear(weights, f"{name}/~/linear_0", jax.nn.softmax(logits)))
    return _linear(weights, f"{name}/~/linear_1", hidden)[..., 0]


def _mix_actions(weights: Weights, name: str, x: jax.Array) -> jax.Array:
    """Apply a layer to the features [T, B, A, C] of every action and their mean over actions."""
    mean = jnp.broadcast_to(jnp.mean(x, axis=2, keepdims=True), x.shape)
    kernel = weights[f"{name}/w"][0]  # a convolution of width 1
    return jax.nn.relu(jnp.concatenate([x, mean], axis=-1) @ kernel + weights[f"{name}/b"])


def _signed_log(x: jax.Array) -> jax.Array:
    return jnp.sign(x) * jnp.log1p(jnp.abs(x))


def _divergence(target: jax.Array, logits: jax.Array) -> jax.Array:
    """Return KL(target || prediction) [...] of logits [..., classes]."""
    log_probs = jax.nn.log_softmax(logits), jax.nn.log_softmax(target)
    return optax.losses.kl_divergence_with_log_targets(*log_probs)
