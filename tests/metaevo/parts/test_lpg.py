import jax
import numpy as np
import pytest
from scipy.special import expit, softmax

from metaevo.parts import LearnedUpdateRule
from purerl import envs, lpg
from purerl.types import Context
from tests.metaevo.toy import drawn
from tests.purerl.reference import trajectory

KEY = jax.random.key(0)
T, N, SIZE = 5, 2, 4
HYPERPARAMS = lpg.Hyperparams()


@pytest.fixture(scope="module", params=[False, True], ids=["lpg", "lpg-t"])
def rule(request):
    """Random meta-parameters (biases, too), the compiled rule, and whether it knows the time."""
    made = LearnedUpdateRule(SIZE, temporal=request.param)
    return jax.device_get(drawn(made)), jax.jit(made.apply), request.param


def mark(*places):
    flags = np.zeros((T, N), bool)
    for place in places:
        flags[place] = True
    return flags


CONTEXT = Context(HYPERPARAMS, progress=0.25, num_updates=100)


def test_against_numpy(rule):
    meta_params, apply, temporal = rule
    ends = {"terminated": mark((1, 0), (3, 1)), "truncated": mark((2, 0), (3, 1))}
    seen = trajectory((T, N))._replace(**ends)
    m = jax.tree.map(lambda x: x.astype(np.float64), meta_params)

    def embed(logits):
        hidden = np.maximum(softmax(logits) @ m["embedding"] + m["embedding_bias"], 0)
        return float((hidden @ m["embedded"] + m["embedded_bias"])[0])

    targets = apply(meta_params, CONTEXT, seen)
    for n in range(N):
        hidden = np.zeros(SIZE)
        for t in reversed(range(T)):
            over = seen.terminated[t, n]
            if over or seen.truncated[t, n]:
                hidden = np.zeros(SIZE)
            after = 0.0 if over else embed(seen.next_prediction[t, n])
            x = [seen.reward[t, n], over, np.exp(seen.log_prob[t, n])]
            x = np.array([*x, embed(seen.prediction[t, n]), after, 0.25, np.log(100)])
            x = x if temporal else x[:5]
            gates = x @ m["input"] + m["input_bias"]
            recurrent = hidden @ m["recurrent"]
            reset = expit(gates[:SIZE] + recurrent[:SIZE])
            update = expit(gates[SIZE : 2 * SIZE] + recurrent[SIZE : 2 * SIZE])
            remembered = recurrent[2 * SIZE :] + m["recurrent_bias"]
            candidate = np.tanh(gates[2 * SIZE :] + reset * remembered)
            hidden = (1 - update) * candidate + update * hidden
            outputs = np.maximum(hidden, 0) @ m["output"] + m["output_bias"]
            np.testing.assert_allclose(targets.policy[t, n], outputs[0], rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(targets.prediction[t, n], outputs[1:], rtol=1e-4, atol=1e-4)
    assert targets.entropy == 0.0


@pytest.mark.parametrize(("temporal", "numbers"), [(False, 203_946), (True, 205_482)])
def test_the_size_of_the_papers(temporal, numbers):
    shapes = jax.eval_shape(LearnedUpdateRule(256, temporal).init, KEY)
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == numbers


@pytest.mark.long
def test_an_exploding_rule_moves_the_agent_by_a_bounded_step():
    made = LearnedUpdateRule(SIZE)
    env, env_params = envs.make("GridWorld", size=2)
    config = lpg.Config(total_timesteps=T * N, num_envs=N, num_steps=T)
    learner = lpg.LPG(config, env, made.apply)
    state = learner.init(KEY, HYPERPARAMS, None, env_params)
    meta_params = jax.tree.map(lambda x: 1e6 * (1 + x), made.init(KEY))
    after, _, _ = jax.jit(learner.update)(state, HYPERPARAMS, meta_params, env_params)
    moved = jax.tree.map(lambda a, b: np.abs(a - b).max(), after.params, state.params)
    assert 0 < max(jax.tree.leaves(moved)) <= 1.01 * HYPERPARAMS.learning_rate
