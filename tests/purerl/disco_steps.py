"""Random inputs of Disco103's rule, and what the authors' code makes of them.

    PYTHONPATH=path/to/disco_rl:. JAX_ENABLE_X64=1 python -m tests.purerl.disco_steps

writes `disco_steps.json`. It needs the code of github.com/google-deepmind/disco_rl (recorded with
9059a29) and its packages, which the tests do not need. Numbers are computed with 64 bits.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

RECORD = Path(__file__).parent / "disco_steps.json"
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
    """Return one number for each row of the last axis."""
    x = np.asarray(x, np.float64)
    return x @ np.cos(np.arange(x.shape[-1]))


def record(sizes: Sizes) -> dict[str, list[dict[str, list[float]]]]:
    """Return the targets, losses and memories of two trajectories, and two steps of training."""
    import dm_env.specs  # all of this comes with the authors' code
    import jax.numpy as jnp
    from disco_rl import agent as agents
    from disco_rl import types

    settings = agents.get_settings_disco()
    settings.learning_rate = LEARNING_RATE
    net = settings.update_rule.net
    net.prediction_size, net.hidden_size, net.meta_rnn_kwargs.hidden_size = sizes
    settings.net_settings.net_args.dense = ()
    agent = agents.Agent(
        single_observation_spec=dm_env.specs.Array((OBS,), np.float64),
        single_action_spec=dm_env.specs.BoundedArray((), np.int32, 0, A - 1),
        agent_settings=settings,
        batch_axis_name=None,
    )
    weights: dict[str, dict[str, np.ndarray]] = {}
    for name, array in rule_weights(sizes).items():
        module, _, kind = name.rpartition("/")
        weights.setdefault(module, {})[kind] = jnp.asarray(array)
    rule, hyperparams = agent.update_rule, settings.hyper_params.to_dict()
    key = np.zeros(2, np.uint32)
    modules = {
        "mlp/~_head_pass/torso_head/~/linear_0": "policy",
        "mlp/~_head_pass/torso_head_1/~/linear_0": "y",
        "mlp/linear": "cell",
        "mlp/action_cond/linear": "gates",
    }
    for number, name in enumerate(["z", "next_policy", "q"]):
        suffix = f"_{number}" if number else ""
        modules |= {f"mlp/mlp{suffix}/~/linear_{i}": f"{name}_{i}" for i in (0, 1)}
    params = agent_params(sizes)
    tree = {
        theirs: {kind: jnp.asarray(params[f"{ours}/{kind}"]) for kind in "wb"}
        for theirs, ours in modules.items()
    }
    first = agent.initial_learner_state(key)
    assert {k: {n: x.shape for n, x in v.items()} for k, v in first.params.items()} == {
        k: {n: x.shape for n, x in v.items()} for k, v in tree.items()
    }

    found: dict[str, list[dict[str, list[float]]]] = {"rule": [], "training": []}
    memory = rule.init_meta_state(key, tree)
    rng = np.random.default_rng(2)
    for _ in range(SEEN):
        own, target, seen = outputs(rng, sizes), outputs(rng, sizes), steps(rng, only_last=False)
        inputs = types.UpdateRuleInputs(
            observations=jnp.asarray(seen["obs"]),
            actions=jnp.asarray(seen["action"]),
            rewards=jnp.asarray(seen["reward"]),
            is_terminal=jnp.asarray(seen["done"]),
            agent_out={k: jnp.asarray(v) for k, v in own.items()},
            behaviour_agent_out={"logits": jnp.asarray(seen["logits"])},
        )
        goal = {k: jnp.asarray(v) for k, v in target.items()}
        targets, memory = rule.unroll_meta_net(
            weights, tree, {}, memory, inputs, hyperparams, lambda *_, goal=goal: (goal, {}), key
        )
        losses, _ = rule.agent_loss(inputs, targets, hyperparams, backprop=False)
        value_losses, _ = rule.agent_loss_no_meta(inputs, targets, hyperparams)
        (state,) = memory["rnn_state"]["lstm"].values()
        found["rule"].append(
            {
                "logits": targets["pi"],
                "y": digest(targets["y"]),
                "z": digest(targets["z"]),
                "q": targets["q_target"],
                "loss": losses + value_losses,
                "memory": np.stack([digest(state.hidden), digest(state.cell)]),
            }
        )
    learner = agents.LearnerState(
        params=tree,
        opt_state=agent._optimizer.init(tree),
        meta_state=rule.init_meta_state(key, tree),
    )
    rng = np.random.default_rng(3)
    for _ in range(STEPS):
        seen = steps(rng, only_last=True)
        zero = np.zeros((1, B))
        rollout = types.ActorRollout(
            observations=jnp.asarray(seen["obs"]),
            actions=jnp.asarray(seen["action"]),
            rewards=jnp.asarray(np.concatenate([zero, seen["reward"]])),
            discounts=jnp.asarray(1.0 - np.concatenate([zero, seen["done"]])),
            agent_outs={"logits": jnp.asarray(seen["logits"])},
            states={},
            logits=jnp.asarray(seen["logits"]),
        )
        learner, _, _ = agent.learner_step(key, rollout, learner, {}, weights, False)
        found["training"].append(
            {
                f"{ours}/{kind}": digest(np.ravel(learner.params[theirs][kind]))
                for theirs, ours in modules.items()
                for kind in "wb"
            }
        )
    return {
        part: [{k: np.asarray(v).tolist() for k, v in each.items()} for each in rows]
        for part, rows in found.items()
    }


if __name__ == "__main__":
    RECORD.write_text(json.dumps({name: record(sizes) for name, sizes in SIZES.items()}) + "\n")
