"""The learner by Disco103: the rule, its losses and its steps against the authors' code."""

import hashlib
import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import traverse_util
from gymnax.environments import spaces

from experiments.published import disco, disco_rule
from experiments.published.disco_rule import Outputs, Trajectory
from metaevo.__main__ import main
from tests.metaevo.toy import assert_same
from tests.purerl import probes

# What the authors' code makes of the random inputs below, with 64 bits: recorded from
# github.com/google-deepmind/disco_rl at 9059a29 by `record` of disco_steps.py at commit 56ed00b9.
RECORD = json.loads((Path(__file__).parent / "disco_steps.json").read_text(encoding="utf-8"))
T, B, A, OBS = 6, 3, 4, 5
MODEL, BINS = 128, 601
GAMMA, TRACE, LEARNING_RATE = 0.997, 0.95, 0.01
SEEN, STEPS = 2, 3
"""Calls of the rule; steps of training, of which the third is the first with an average target."""
META = "lstm/~/meta_lstm/~unroll/"

Arrays = dict[str, np.ndarray]


class Sizes(NamedTuple):
    prediction: int
    hidden: int
    lifetime: int


SIZES = {"small": Sizes(7, 12, 5), "published": Sizes(600, 256, 128)}


def drawn(rng: np.random.Generator, shapes: Mapping[str, tuple[int, ...]]) -> Arrays:
    return {
        name: rng.normal(size=shape) * (0.1 if len(shape) == 1 else shape[-2] ** -0.5)
        for name, shape in shapes.items()
    }


def _layer(name: str, *shape: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}/w": shape, f"{name}/b": shape[-1:]}


def rule_weights(sizes: Sizes) -> Arrays:
    size, hidden, lifetime = sizes
    shapes = {}
    for where in ("lstm/", META):
        for name in ("mlp", "mlp_1"):
            shapes |= _layer(f"{where}{name}/~/linear_0", size, 16)
            shapes |= _layer(f"{where}{name}/~/linear_1", 16, 1)
        shapes |= _layer(f"{where}sequential/conv1_d", 1, 18, 16)
        shapes |= _layer(f"{where}sequential/conv1_d_1", 1, 32, 2)
    shapes |= _layer("lstm/lstm/linear", 27 + hidden, 4 * hidden)
    shapes |= _layer("lstm/linear", lifetime, hidden)
    shapes |= _layer("lstm/linear_1", hidden, 1)
    shapes |= _layer("lstm/linear_2", hidden, size)
    shapes |= _layer("lstm/linear_3", hidden, size)
    shapes |= _layer("lstm/sequential_1/conv1_d", 1, 2 * (hidden + 2), 16)
    shapes |= _layer("lstm/linear_4", 16, 1)
    shapes |= _layer(f"{META}mlp_2/~/linear_0", 29, 16)
    shapes |= _layer(f"{META}lstm/linear", 16 + lifetime, 4 * lifetime)
    return drawn(np.random.default_rng(0), shapes)


def agent_params(sizes: Sizes) -> Arrays:
    """Parameters of an agent without hidden layers in its torso."""
    shapes = _layer("policy", OBS, A) | _layer("y", OBS, sizes.prediction)
    shapes |= _layer("cell", OBS, MODEL) | _layer("gates", A + MODEL, 4 * MODEL)
    for name, size in [("z", sizes.prediction), ("next_policy", A), ("q", BINS)]:
        shapes |= _layer(f"{name}_0", MODEL, MODEL) | _layer(f"{name}_1", MODEL, size)
    return drawn(np.random.default_rng(1), shapes)


def outputs(rng: np.random.Generator, sizes: Sizes) -> Arrays:
    shapes = {"logits": (A,), "y": (sizes.prediction,), "z": (A, sizes.prediction)}
    shapes |= {"q": (A, BINS), "aux_pi": (A, A)}
    return {name: 2.0 * rng.normal(size=(T + 1, B, *shape)) for name, shape in shapes.items()}


def steps(rng: np.random.Generator, *, only_last: bool) -> Arrays:
    """Actions, rewards and ends of episodes, which can be after the last step only."""
    done = rng.random((T, B)) < 0.4
    if only_last:
        done[:-1] = False
    return {
        "action": rng.integers(A, size=(T + 1, B)).astype(np.int32),
        "reward": 3.0 * rng.normal(size=(T, B)),
        "done": done,
        "logits": rng.normal(size=(T + 1, B, A)),
        "obs": rng.normal(size=(T + 1, B, OBS)),
    }


def digest(x: np.ndarray) -> np.ndarray:
    x = np.asarray(x, np.float64)
    return x @ np.cos(np.arange(x.shape[-1]))


KEY = jax.random.key(0)
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
GATES = "gates", "kernel"
LEARNER = "experiments/published/disco.py:DISCO"
every_size = pytest.mark.parametrize(
    "size", ["small", pytest.param("published", marks=pytest.mark.long)]
)


class Recorded(probes.Probe):
    def action_space(self, params=None):
        return spaces.Discrete(A)

    def observation_space(self, params=None):
        return spaces.Box(-1.0, 1.0, (OBS,))


@pytest.fixture
def write(tmp_path, monkeypatch):
    def write(size):
        path = tmp_path / f"{size}.npz"
        arrays = rule_weights(SIZES[size])
        np.savez(path, **{name: x.astype(np.float32) for name, x in arrays.items()})
        monkeypatch.setattr(disco, "KNOWN", {hashlib.sha256(path.read_bytes()).hexdigest(): ""})
        return str(path)

    return write


def config(**changes):
    small = {"num_envs": 2, "num_steps": 3, "num_trajectories": 4, "buffer_trajectories": 6}
    return disco.Config(**{"total_timesteps": 30, "hidden_sizes": (8,), **small, **changes})


def trajectory(seen):
    steps = seen["action"][:-1], seen["reward"], seen["done"], seen["logits"][:-1]
    return Trajectory(seen["obs"], *steps)


def agents_outputs(rng, sizes):
    drawn = outputs(rng, sizes)
    return Outputs(*(drawn[name] for name in ("logits", "y", "z", "q", "aux_pi")))


@every_size
def test_targets_and_losses_match_the_authors_code(size):
    """Two trajectories: the second is seen with what the rule remembers of the first."""
    sizes = SIZES[size]
    with jax.enable_x64(True):
        weights = rule_weights(sizes)
        memory = disco_rule.begin(weights)
        rng = np.random.default_rng(2)
        for recorded in RECORD[size]["rule"]:
            own, goal = agents_outputs(rng, sizes), agents_outputs(rng, sizes)
            seen = trajectory(steps(rng, only_last=False))
            targets, memory = jax.jit(disco_rule.apply)(weights, memory, own, goal, seen, GAMMA)
            losses = disco_rule.loss(own, targets, seen)
            found = {
                "logits": targets.logits,
                "y": digest(targets.y),
                "z": digest(targets.z),
                "q": targets.q,
                "loss": sum(losses.values()),
                "memory": [digest(memory.hidden), digest(memory.cell)],
            }
            assert found.keys() == recorded.keys()
            for name, numbers in found.items():
                np.testing.assert_allclose(numbers, recorded[name], **CLOSE, err_msg=name)


def path_of(name):
    layer, kind = name.split("/")
    return layer, {"w": "kernel", "b": "bias"}[kind]


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
        vars(learner)["weights"] = rule_weights(sizes)  # in 64 bits
        hyperparams = disco.Hyperparams(learning_rate=LEARNING_RATE)
        params = as_flax(agent_params(sizes))
        shapes = jax.eval_shape(learner.network.init, KEY, jnp.zeros((1, OBS)))
        assert jax.tree.map(jnp.shape, params) == jax.tree.map(jnp.shape, shapes)
        opt_state, memory = disco.OPTIMIZER.init(params), disco_rule.begin(learner.weights)
        agent = disco.Agent(params, params, opt_state, memory)
        learn = jax.jit(learner.learn)
        rng = np.random.default_rng(3)
        for recorded in RECORD[size]["training"]:
            seen = steps(rng, only_last=True)
            agent, _ = learn(agent, trajectory(seen), hyperparams)
            found, first = (as_recorded(each, recorded) for each in (agent.params, params))
            for name, number in recorded.items():
                step, expected = ((x - first[name]) / LEARNING_RATE for x in (found[name], number))
                np.testing.assert_allclose(step, expected, **CLOSE, err_msg=name)


@pytest.mark.long
def test_trajectories_are_kept_and_drawn_and_learning_begins_with_enough(write):
    """Two agents: every update collects 2 trajectories, and a minibatch needs 4 of the 6 kept."""
    learner = disco.Disco(config(weights=write("small")), probes.Cycle())
    others = disco.Hyperparams(learning_rate=0.1), None, learner.env.default_params
    axes = 0, None, None, None
    init = jax.jit(jax.vmap(learner.init, axes))
    states = [init(jax.random.split(KEY, 2), *others)]
    update = jax.jit(jax.vmap(learner.update, axes))
    for _ in range(5):
        state, _, metrics = update(states[-1], *others)
        states.append(state)
    for before, after in itertools.pairwise(states):
        np.testing.assert_array_equal(after.ring.obs[:, -2:, 0], before.envs.obs)
        np.testing.assert_array_equal(after.ring.obs[:, -2:, -1], after.envs.obs)
        assert_same(*(jax.tree.map(lambda x, rows=rows: x[:, rows], state.ring)
                      for state, rows in ((before, slice(2, 6)), (after, slice(4)))))  # fmt: skip
    first, second, third = (state.agent for state in states[:3])
    assert_same(first, second)
    assert jnp.all(jnp.any(second.params["params"]["y"]["bias"]
                           != third.params["params"]["y"]["bias"], axis=1))  # fmt: skip
    assert jnp.all(jnp.any(third.memory.hidden != 0.0, axis=1))
    assert all(jnp.all(jnp.isfinite(metric)) for metric in metrics.values())
    state = jax.tree.map(lambda x: x[0], states[2])
    ring = state.ring._replace(obs=jnp.broadcast_to(jnp.arange(6.0)[:, None, None], (6, 4, 1)))
    drawn = jax.jit(learner.draw)(state.replace(ring=ring), KEY)
    assert drawn.obs.shape == (4, 4, 1)
    assert sorted(drawn.obs[0, :, 0]) == [2, 3, 4, 5]  # all that are written by then


@pytest.mark.parametrize(
    ("content", "env", "complaint"),
    [
        (None, "Catch-bsuite", "disco_103.npz': No such file or directory; must be a copy of"),
        (b"other", "Catch-bsuite", "its SHA-256 begins with d9298a10; must be an unaltered copy"),
        (None, "Pendulum-v1", "Pendulum-v1: Disco103 needs a discrete action space"),
    ],
)
def test_bad_input(content, env, complaint, tmp_path, refused):
    path = tmp_path / "disco_103.npz"
    if content is not None:
        path.write_bytes(content)
    command = ["train", "--learner", LEARNER, "--train.weights", str(path), "--task.env", env]
    assert complaint in refused(main, command)


def test_a_minibatch_must_fit_into_the_replay_memory():
    for name in ("num_envs", "num_trajectories"):
        with pytest.raises(ValueError, match=f"buffer_trajectories = 6 is below .*{name} = 7"):
            config(total_timesteps=60, **{name: 7})
