"""The learner by Disco103: the rule, its losses and its steps against the authors' code."""

import hashlib
import itertools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import traverse_util
from gymnax.environments import spaces

from metaevo.__main__ import main
from metaevo.comparison.recorded import BETTER
from purerl import disco
from purerl.parts import disco_rule
from purerl.parts.disco_rule import Outputs, Trajectory
from tests.purerl import disco_steps, probes
from tests.purerl.disco_steps import GAMMA, SIZES, TRACE, A, digest

RECORD = json.loads(disco_steps.RECORD.read_text(encoding="utf-8"))
KEY = jax.random.key(0)
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
GATES = "gates", "kernel"
every_size = pytest.mark.parametrize(
    "size", ["small", pytest.param("published", marks=pytest.mark.long)]
)


class Recorded(probes.Probe):
    def action_space(self, params=None):
        return spaces.Discrete(A)

    def observation_space(self, params=None):
        return spaces.Box(-1.0, 1.0, (disco_steps.OBS,))


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a file that is taken for the authors' weights."""

    def write(size):
        path = tmp_path / f"{size}.npz"
        arrays = disco_steps.rule_weights(SIZES[size])
        np.savez(path, **{name: x.astype(np.float32) for name, x in arrays.items()})
        monkeypatch.setattr(disco_rule, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
        return str(path)

    return write


def config(**changes):
    small = {"num_envs": 2, "num_steps": 3, "num_trajectories": 4, "buffer_trajectories": 6}
    return disco.Config(**{"total_timesteps": 30, "hidden_sizes": (8,), **small, **changes})


def trajectory(seen):
    return Trajectory(seen["action"][:-1], seen["reward"], seen["done"], seen["logits"][:-1])


def agents_outputs(rng, sizes):
    drawn = disco_steps.outputs(rng, sizes)
    return Outputs(*(drawn[name] for name in ("logits", "y", "z", "q", "aux_pi")))


@every_size
def test_targets_and_losses_match_the_authors_code(size):
    """Two trajectories: the second is seen with what the rule remembers of the first."""
    sizes = SIZES[size]
    with jax.enable_x64(True):
        weights = disco_steps.rule_weights(sizes)
        memory = disco_rule.begin(weights)
        rng = np.random.default_rng(2)
        for recorded in RECORD[size]["rule"]:
            own, goal = agents_outputs(rng, sizes), agents_outputs(rng, sizes)
            seen = trajectory(disco_steps.steps(rng, only_last=False))
            targets, memory = jax.jit(disco_rule.apply)(
                weights, memory, own, goal, seen, GAMMA, TRACE
            )
            losses = disco_rule.loss(own, targets, seen)
            found = {
                "logits": targets.logits,
                "y": digest(targets.y),
                "z": digest(targets.z),
                "q": targets.q,
                "loss": sum(losses.values()) - 0.8 * losses["q_loss"],
                "memory": [digest(memory.hidden), digest(memory.cell)],
            }
            assert found.keys() == recorded.keys()
            for name, numbers in found.items():
                np.testing.assert_allclose(numbers, recorded[name], **CLOSE, err_msg=name)


def path_of(name):
    """Return our name of an agent's recorded array."""
    layer, kind = name.split("/")
    kind = {"w": "kernel", "b": "bias"}[kind]
    if layer[-1] in "01":  # before and after an activation
        return f"{layer[:-2]}_head", f"layers_{2 * int(layer[-1])}", kind
    return layer if layer in ("cell", "gates") else f"{layer}_head", kind


def as_flax(arrays):
    flat = {path_of(name): jnp.asarray(x) for name, x in arrays.items()}
    flat["gates_of_actions",], flat[GATES] = flat[GATES][:A], flat[GATES][A:]
    return {"params": traverse_util.unflatten_dict(flat)}


def as_recorded(params, names):
    flat = traverse_util.flatten_dict(params["params"])
    flat[GATES] = np.concatenate([flat["gates_of_actions",], flat[GATES]])
    return {name: digest(np.ravel(flat[path_of(name)])) for name in names}


@every_size
def test_steps_match_the_authors_agent(size, write):
    """Three steps of Adam on the rule's losses, with the target network between them."""
    sizes = SIZES[size]
    path = write(size)
    with jax.enable_x64(True):
        learner = disco.Disco(config(weights=path, hidden_sizes=()), Recorded())
        vars(learner)["weights"] = disco_steps.rule_weights(sizes)  # in 64 bits
        hyperparams = disco.Hyperparams(learning_rate=disco_steps.LEARNING_RATE)
        params = as_flax(disco_steps.agent_params(sizes))
        shapes = jax.eval_shape(learner.network.init, KEY, jnp.zeros((1, disco_steps.OBS)))
        assert jax.tree.map(jnp.shape, params) == jax.tree.map(jnp.shape, shapes)
        opt_state = disco.optimizer(hyperparams).init(params)
        memory = disco_rule.begin(learner.weights)
        agent = disco.Agent(params, params, opt_state, memory)
        learn = jax.jit(learner.learn)
        rng = np.random.default_rng(3)
        for recorded in RECORD[size]["training"]:
            seen = disco_steps.steps(rng, only_last=True)
            agent, _ = learn(agent, disco.Experience(seen["obs"], trajectory(seen)), hyperparams)
            found, first = (as_recorded(each, recorded) for each in (agent.params, params))
            for name, number in recorded.items():
                step, expected = (
                    (x - first[name]) / disco_steps.LEARNING_RATE for x in (found[name], number)
                )
                np.testing.assert_allclose(step, expected, **CLOSE, err_msg=name)


def test_trajectories_are_kept_and_drawn(write):
    """The ring keeps the latest trajectories, and minibatches have different ones of them."""
    learner = disco.Disco(config(weights=write("small")), probes.Cycle())
    env_params = learner.env.default_params
    states = [jax.jit(learner.init)(KEY, disco.Hyperparams(), None, env_params)]
    collect = jax.jit(learner.collect)
    for key in jax.random.split(KEY, 5):
        states.append(collect(states[-1], key, env_params)[0])
    for number, (before, after) in enumerate(itertools.pairwise(states)):
        rows = slice(number % 3 * 2, number % 3 * 2 + 2)  # the 6 are overwritten in turn
        kept = jax.tree.map(lambda ring, rows=rows: ring[rows], after.ring)
        np.testing.assert_array_equal(kept.obs[:, 0], before.envs.obs)
        np.testing.assert_array_equal(kept.obs[:, -1], after.envs.obs)
        policy = learner.network.apply(after.agent.params, kept.obs[:, :-1], method="policy")
        np.testing.assert_allclose(kept.steps.logits, policy.logits, **CLOSE)
    ring = states[2].ring._replace(obs=jnp.broadcast_to(jnp.arange(6.0)[:, None, None], (6, 4, 1)))
    drawn = learner.draw(states[2].replace(ring=ring), KEY)
    assert drawn.obs.shape == (4, 4, 1)
    assert sorted(drawn.obs[0, :, 0]) == [0, 1, 2, 3]  # all that are written by then


@pytest.mark.long
def test_learning_begins_with_enough_trajectories(write):
    """The first update collects 2 of the 4 that a minibatch needs; two agents at once."""
    learner = disco.Disco(config(weights=write("small")), probes.Cycle())
    others = disco.Hyperparams(learning_rate=0.1), None, learner.env.default_params
    axes = 0, None, None, None
    states = [jax.vmap(learner.init, axes)(jax.random.split(KEY, 2), *others)]
    update = jax.jit(jax.vmap(learner.update, axes))
    for _ in range(2):
        state, _, metrics = update(states[-1], *others)
        states.append(state)
    first, second, third = (state.agent for state in states)
    for before, after in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        np.testing.assert_array_equal(before, after)
    head = [agent.params["params"]["y_head"]["bias"] for agent in (second, third)]
    assert jnp.all(jnp.any(head[0] != head[1], axis=1))
    assert jnp.all(jnp.any(third.memory.hidden != 0.0, axis=1))
    assert all(jnp.all(jnp.isfinite(metric)) for metric in metrics.values())
    assert set(metrics) <= set(BETTER)


@pytest.mark.parametrize(
    ("content", "env", "complaint"),
    [
        (None, "Catch-bsuite", "disco_103.npz': No such file or directory; must be a copy of"),
        (b"other", "Catch-bsuite", "its SHA-256 begins with d9298a10: must be an unaltered copy"),
        (None, "Pendulum-v1", "Pendulum-v1: Disco103 needs a discrete action space"),
    ],
)
def test_bad_input(content, env, complaint, tmp_path, refused):
    path = tmp_path / "disco_103.npz"
    if content is not None:
        path.write_bytes(content)
    command = ["train", "--learner", "disco", "--train.weights", str(path), "--task.env", env]
    assert complaint in refused(main, command)
