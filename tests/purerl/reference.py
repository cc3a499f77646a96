"""PPO's loss and gradient from the papers' equations, in NumPy and float64."""

import jax
import jax.numpy as jnp
import numpy as np

from purerl import lpg


def dense(layer, x):
    return x @ layer["kernel"] + layer["bias"]


def forward(params, obs):
    """Return what the policy head gives and the value at obs [B, d] of a tanh network."""

    def torso(layers, x):
        for index in range(len(layers)):
            x = np.tanh(dense(layers[f"Dense_{index}"], x))
        return x

    params = params["params"]
    actor = torso(params["actor_torso"], obs)
    critic = torso(params["critic_torso"], obs) if "critic_torso" in params else actor
    return dense(params["policy_head"], actor), dense(params["value_head"], critic)[:, 0]


def q_values(params, obs):
    """All action values, float64, of a tanh network at obs [B, d].

    With or without layer normalisation and dueling heads.
    """
    layers = params["params"]
    x, torso = np.asarray(obs, np.float64), layers["torso"]
    for index in range(sum(name.startswith("Dense") for name in torso)):
        x = dense(torso[f"Dense_{index}"], x)
        if norm := torso.get(f"LayerNorm_{index}"):
            x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-6)
            x = x * norm["scale"] + norm["bias"]
        x = np.tanh(x)
    q = dense(layers["action_head"], x)
    if "value_head" in layers:
        q = q - q.mean(1, keepdims=True) + dense(layers["value_head"], x)
    return q


def log_probs_and_entropy(params, head, action):
    if "log_std" in params["params"]:
        std = np.exp(params["params"]["log_std"])
        density = np.exp(-(((action - head) / std) ** 2) / 2) / (std * np.sqrt(2 * np.pi))
        entropy = 0.5 * np.log(2 * np.pi * np.e * std**2)
        return np.log(density).sum(1), entropy.sum()
    p = np.exp(head) / np.exp(head).sum(1, keepdims=True)
    return np.log(p[np.arange(len(action)), action]), -(p * np.log(p)).sum(1).mean()


def recurrent_forward(params, obs, memory, done):
    """Return heads, values and memories, before and after each step, of sequences [T, N, d].

    Cho et al. 2014, with the reset gate on the product with the memory, as flax and PyTorch do.
    """

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    def gru(layers, x, h):
        r = sigmoid(dense(layers["ir"], x) + h @ layers["hr"]["kernel"])
        z = sigmoid(dense(layers["iz"], x) + h @ layers["hz"]["kernel"])
        n = np.tanh(dense(layers["in"], x) + r * dense(layers["hn"], h))
        return (1 - z) * n + z * h

    params = params["params"]
    names = [name for name in ("actor", "critic") if f"{name}_torso" in params]
    memories = np.split(np.asarray(memory, np.float64), len(names), axis=1)
    steps = []
    for x, ended in zip(obs, done, strict=True):
        before, after = memories, []
        for name, h in zip(names, memories, strict=True):
            features = np.tanh(dense(params[f"{name}_torso"]["Dense_0"], x))
            (layers,) = params[f"{name}_memory"].values()
            after.append(gru(layers, features, h))
        head = dense(params["policy_head"], after[0])
        value = dense(params["value_head"], after[-1])[:, 0]
        steps.append((head, value, np.concatenate(before, 1), np.concatenate(after, 1)))
        memories = [np.where(ended[:, None], 0.0, h) for h in after]
    return [np.stack(each) for each in zip(*steps, strict=True)]


def ppo_loss(params, batch, hyperparams, *, clip_value, standardize, forward=forward):
    """Equations 7 and 9 of Schulman et al. 2017, negated, with 1/2 in the squared error."""
    h = hyperparams
    head, value = forward(params, batch.transition.obs)
    log_prob, entropy = log_probs_and_entropy(params, head, batch.transition.action)
    advantage = batch.advantage
    if standardize:
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    ratio = np.exp(log_prob) / np.exp(batch.transition.log_prob)
    bounded = np.clip(ratio, 1 - h.clip_epsilon, 1 + h.clip_epsilon)
    surrogate = np.minimum(ratio * advantage, bounded * advantage).mean()
    errors = (value - batch.target) ** 2
    if clip_value:
        eps = h.value_clip_epsilon
        moved = batch.value + np.clip(value - batch.value, -eps, eps)
        errors = np.maximum(errors, (moved - batch.target) ** 2)
    return -surrogate + h.vf_coef * errors.mean() / 2 - h.entropy_coef * entropy


def drawn(network, obs, seed=0):
    """Parameters of a network with normal numbers, which need no compilation."""
    rng = np.random.default_rng(seed)
    shapes = jax.eval_shape(network.init, jax.random.key(0), obs)
    return jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape) * 0.5, jnp.float32), shapes)


def trajectory(shape, seed=0):
    """Random experience [T, N] of an agent of an update rule."""
    rng = np.random.default_rng(seed)
    reward, log_prob = rng.normal(size=shape), np.log(rng.random(shape))
    ends = rng.random((2, *shape)) < 0.2
    predictions = rng.normal(size=(2, *shape, lpg.PREDICTION_SIZE)).astype(np.float32)
    return lpg.Trajectory(np.float32(reward), *ends, np.float32(log_prob), *predictions)


def to_float64(tree):
    return jax.tree.map(
        lambda x: np.asarray(x, np.float64 if x.dtype == np.float32 else None), tree
    )


def gradient(params, function, step=1e-6):
    """Central differences of function(params), one component after another."""
    params = to_float64(params)
    leaves = jax.tree.leaves(params)
    gradients = [np.zeros_like(leaf) for leaf in leaves]
    for leaf, slope in zip(leaves, gradients, strict=True):
        for index in np.ndindex(leaf.shape):
            centre = leaf[index]
            leaf[index] = centre + step
            above = function(params)
            leaf[index] = centre - step
            below = function(params)
            leaf[index] = centre
            slope[index] = (above - below) / (2 * step)
    return jax.tree.unflatten(jax.tree.structure(params), gradients)
