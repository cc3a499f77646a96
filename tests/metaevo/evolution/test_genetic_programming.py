import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metaevo.evolution import genetic as gp
from metaevo.evolution import postfix, variation
from metaevo.evolution.loop import Evolution, EvolutionConfig
from metaevo.evolution.postfix import Programs
from metaevo.evolution.problem import Evaluation, MetaProblem
from metaevo.parts import interpreter
from metaevo.parts.expressions import program_text as text
from tests.metaevo.toy import assert_same, run

OPERATIONS = "add", "subtract", "multiply", "divide", "tanh", "minimum"
LENGTH, DEPTH = 12, 5
POINTS = np.linspace(-2, 2, 16).astype(np.float32)


class Regression(MetaProblem):
    """Find a function of x; every key adds the same noise to all, and some to each."""

    def __init__(self, noise=0.0):
        self.noise = noise
        self.programs = Programs(
            DEPTH,
            lambda meta_params: self.outputs(meta_params, POINTS),
            lambda meta_params: text(meta_params["codes"][0], meta_params["constants"][0], ["x"]),
        )

    def init(self, key):
        codes, constants = variation.random_program(key, OPERATIONS, 1, LENGTH, DEPTH)
        return {"codes": codes[None], "constants": constants[None]}

    def outputs(self, meta_params, x):
        program = meta_params["codes"][0], meta_params["constants"][0]
        return interpreter.evaluate(OPERATIONS, program, [x])

    def evaluate(self, key, meta_params, task):
        common_key, own_key = jax.random.split(key)
        y = POINTS**2 * 0.5 + jnp.tanh(POINTS)
        error = self.outputs(meta_params, POINTS) - y
        own = jax.random.fold_in(own_key, jnp.sum(meta_params["codes"]))
        noise = 10 * jax.random.normal(common_key) + jax.random.normal(own)
        return Evaluation(-jnp.sqrt(jnp.mean(error**2)) + self.noise * noise, {})


@pytest.fixture(scope="module")
def this():
    config = EvolutionConfig(generations=40, num_devices=1, validation_seeds=0, block_size=40)
    strategy = gp.GeneticProgramming(population_size=64, sigma=0.1)
    return Evolution(Regression(noise=0.02), strategy, config)


@pytest.fixture(scope="module")
def ended(this):
    return run(this, 40)[0]


@pytest.mark.long
def test_it_finds_a_function_despite_noise(this, ended):
    """It is better than all but a thousandth of random programs."""
    clean = jax.jit(jax.vmap(Regression().evaluate, in_axes=(None, 0, None)))
    drawn = jax.vmap(this.problem.init)(jax.random.split(jax.random.key(1), 64 * 40 - 1))
    result = this.result(ended)
    found = jax.tree.map(lambda x, y: jnp.append(x, y[None], axis=0), drawn, result)
    fitness = np.asarray(clean(jax.random.key(0), found, 0).fitness)
    assert np.mean(fitness[:-1] >= fitness[-1]) < 1e-3, fitness[-1]
    assert ended.search.noise[0] == pytest.approx(0.02, rel=0.5)  # not 0.2, as all have


@pytest.mark.long
def test_the_front_has_better_programs_the_longer_they_are(this, ended):
    rows = this.others(ended)
    assert len(rows) > 2
    for shorter, longer in itertools.pairwise(rows):
        assert shorter["length"] < longer["length"]
        assert shorter["score"] < longer["score"]
    assert rows[-1]["program"] == Regression().programs.text(jax.device_get(this.result(ended)))


@pytest.mark.long
def test_blocks_can_be_divided(this, ended):
    divided, _ = run(this, 7, 33)
    assert_same(divided, ended)


@pytest.fixture(scope="module")
def small():
    """Compiled methods for 4 survivors of 16 programs."""
    strategy = gp.GeneticProgramming(population_size=16, survivors=4).bind(Regression())

    def told(fitness, population, state):
        return strategy.tell(jax.random.key(1), population, Evaluation(fitness, {}), state)

    start = jax.jit(lambda: strategy.init(jax.random.key(2), Regression().init))()
    behaviour = jax.jit(jax.vmap(Regression().programs.fingerprint))
    return strategy, start, jax.jit(strategy.ask), jax.jit(told), behaviour


def test_newcomers_are_valid_and_untrained(small):
    _, state, ask, tell, behaviour = small
    measure = jax.jit(jax.vmap(lambda codes: (postfix.is_valid(codes, 1), postfix.height(codes))))
    trained = np.empty((0, len(POINTS)))
    for index in range(16):
        population, state = ask(jax.random.key(index), state)
        is_valid, heights = measure(population["codes"][:, 0])
        assert is_valid.all()
        assert heights.max() <= DEPTH
        outputs = np.asarray(behaviour(population))
        trained = np.append(trained, outputs[4 if index else 0 :], axis=0)
        error = np.nan_to_num(outputs - POINTS**2, nan=1e9)
        state = tell(-np.abs(error).mean(axis=1), population, state)
    assert len(trained) == 4 + 16 * 12
    new = trained[4:]  # all but the first of the pool
    assert np.isfinite(new).all()
    assert (new != 0).any(axis=1).all()
    for index in range(4, len(trained)):
        close = np.abs(trained[:index] - trained[index]) <= 1e-6 * (1 + np.abs(trained[index]))
        assert not close.all(axis=1).any()


def after(small, known, fitness, noise=0.0):
    """The population and the state after a generation; means of survivors cover 4 generations."""
    strategy, state, ask, tell, _ = small
    state = state.replace(
        mean=jnp.float32(known), generations=jnp.full(4, 4.0), noise=jnp.float32(noise)
    )
    population, asked = ask(jax.random.key(1), state)
    told = tell(np.float32(fitness), population, asked)
    best, population = strategy.best(told), jax.device_get(population)
    same = [(population[name] == best[name]).all((1, 2)) for name in best]
    return int(np.argmax(same[0] & same[1])), told


def test_means_ignore_noise_shared_by_a_generation(small):
    """Means by hand: all survivors score 101 more than before."""
    fitness = [102, 104, 103.5, 101.5, *[90] * 11, 103.8]
    best, told = after(small, [1, 3, 2.5, 0.5], fitness)
    assert best == 1
    tenths = [round(10 * mean) for mean in told.mean.tolist()]
    found = set(zip(tenths, told.generations.tolist(), strict=True))
    assert found <= {(30, 5), (25, 5), (10, 5), (5, 5), (28, 1), (-110, 1)}
    assert {(30, 5), (28, 1)} <= found
    returned = [round(10 * mean) for mean in told.returned.tolist()]  # before: 0, of 4 generations
    assert {(204, 5), (1038, 1)} <= set(zip(returned, told.generations.tolist(), strict=True))


def test_the_front_is_on_the_scale_of_returns(small):
    """Means that have risen by 500 are reported without the rise."""
    strategy, state, *_ = small
    ones = jnp.ones(4)
    state = state.replace(mean=503.0 * ones, returned=3.0 * ones, generations=4.0 * ones)
    assert [each["score"] for each in strategy.others(state)] == [3.0]


def test_a_lucky_newcomer_survives_but_is_not_the_best(small):
    best, told = after(small, [3, 3, 3, 3], [3, 3, 3, 3, *[-9] * 11, 3.5], noise=2.0)
    assert told.noise == 1.0  # half of the old one, as no survivor surprises
    assert best < 4  # 3 - 1 / sqrt(5) is more than 3.5 - 1
    best, told = after(small, [3, 3, 3, 3], [3, 3, 3, 3, *[-9] * 11, 5], noise=2.0)
    assert best == 15


def test_the_front_by_comparison_of_all():
    rng = np.random.default_rng(0)
    score, length = rng.integers(0, 8, 60).astype(float), rng.integers(1, 12, 60)
    found = np.asarray(gp.front(jnp.asarray(score), jnp.asarray(length)))
    for index in range(60):
        rivals = [
            other
            for other in range(60)
            if length[other] <= length[index]
            and (score[other], -length[other]) > (score[index], -length[index])
        ]
        assert found[index] == (not rivals)
    assert 2 < found.sum() < 30
