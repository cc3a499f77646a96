from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metaevo.evolution import devices
from metaevo.evolution.problem import Purpose, key_for, keys_for
from tests.metaevo import toy
from tests.metaevo.toy import Quadratic, assert_same, begun, distance, evolution, run


@pytest.fixture(scope="module")
def validated():
    config = {"validation_seeds": 5, "validation_every": 3, "chunk_size": 2}
    return evolution(Quadratic(1.0), config)


@pytest.mark.smoke
def test_the_result_is_the_mean(validated):
    this = validated
    state, _ = run(this, 3)
    assert_same(this.result(state), toy.best(this, state))
    flat = np.append(this.result(state)["weights"], this.result(state)["bias"])
    assert sorted(flat) == sorted(np.asarray(toy.search(state).mean))


def test_without_a_mean_the_result_is_the_best_validated():
    config = {"validation_seeds": 4, "validation_every": 1}
    this = evolution(Quadratic(0.5), config, algorithm="SimpleGA", sigma=1.0)
    state, metrics = run(this, 12)
    highest = np.nanmax(metrics["fitness_of_mean"])
    noise = jax.vmap(jax.random.normal)(keys_for(0, Purpose.VALIDATION, 4))
    expected = 10 - distance(this.result(state)) ** 2 + 0.5 * float(noise.mean())
    assert highest == pytest.approx(expected, abs=1e-4)
    last = toy.best(this, state)
    assert distance(this.result(state)) < distance(last)


def test_validation_evaluates_the_mean_on_its_own_keys(validated):
    this = validated
    state = begun(this)
    mean = jax.device_get(toy.best(this, state))
    _, metrics = this.run(state, 1)
    noise = jax.vmap(jax.random.normal)(keys_for(0, Purpose.VALIDATION, 5))
    expected = 10 - distance(mean) ** 2 + float(noise.mean())
    assert metrics["fitness_of_mean"][0] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("name", ["Open_ES", pytest.param("SimpleGA", marks=pytest.mark.long)])
def test_the_last_generation_is_always_validated(name, compilations):
    """Whoever asks for more goes on with the same program, from a record that has its own."""
    config = {"validation_seeds": 4, "validation_every": 5, "generations": 7}
    this = evolution(Quadratic(0.1), config, algorithm=name)
    state, metrics = run(this, 3, 4)
    validated = np.flatnonzero(np.isfinite(metrics["fitness_of_mean"]))
    first = [0] if this.strategy.has_mean else []  # the others have no best one yet
    assert validated.tolist() == [*first, 5, 6]
    more = evolution(this.problem, {**config, "generations": 9}, algorithm=name)
    before = compilations()
    more._program = this.compiled()
    _, metrics = run(more, 2, state=state)
    assert compilations() == before
    assert np.isfinite(metrics["fitness_of_mean"]).tolist() == [False, True]


def test_candidates_share_their_keys():
    this = evolution(toy.KeyOnly(), {"seeds_per_candidate": 3})
    state, metrics = run(this, 6)
    assert metrics["tied"].all()
    assert_same(this.result(state), this.result(begun(this)))  # a tie teaches nothing
    assert len(set(metrics["fitness_mean"])) == 6  # each generation has keys of its own
    variance = metrics["luck_squared"] - metrics["luck"] ** 2
    assert (variance > 1e-4).all()  # and each of a candidate's agents too


@pytest.mark.smoke
def test_keys_of_all_purposes_are_distinct():
    keys = [keys_for(seed, purpose, 100) for seed in range(3) for purpose in Purpose]
    data = np.concatenate([jax.random.key_data(each) for each in keys])
    # Those of a generation: ask, evaluate, tell, and the candidates' agents.
    for generation in range(20):
        parts = jax.random.split(jax.random.fold_in(key_for(0, Purpose.EVOLUTION), generation), 3)
        agents = jax.vmap(jax.random.fold_in, (None, 0))(parts[1], jnp.arange(4))
        data = np.concatenate([data, jax.random.key_data(parts), jax.random.key_data(agents)])
    assert len({tuple(each) for each in data}) == len(data)


def test_a_candidate_fails_with_any_of_its_agents():
    this = evolution(toy.Failing(), {"seeds_per_candidate": 2})
    state, metrics = run(this, 12)
    some = metrics["failed"] > 0
    assert some.any()
    assert not some.all()
    np.testing.assert_array_equal(metrics["diverged"], np.where(some, 16, 0))
    np.testing.assert_array_equal(np.isfinite(metrics["fitness_mean"]), ~some)
    assert np.isfinite(distance(this.result(state)))
    assert int(devices.first(state).generation) == 12


class HalfFailing(Quadratic):
    def evaluate(self, key, meta_params, task):
        evaluation = super().evaluate(key, meta_params, task)
        fitness = jnp.where(meta_params["weights"][0] < 0, jnp.nan, evaluation.fitness)
        return evaluation._replace(fitness=fitness)


@pytest.mark.long
def test_failed_candidates_are_counted_avoided_and_left_out_of_quantiles():
    this = evolution(HalfFailing(), sigma=0.5)
    start = begun(this)
    key = jax.random.fold_in(key_for(0, Purpose.EVOLUTION), 0)
    population, _ = this.strategy.bind(this.problem).ask(
        jax.random.split(key, 3)[0], toy.search(start)
    )
    state, metrics = run(this, 40, state=start)
    assert 0 < metrics["diverged"][0] < 16
    assert metrics["diverged"][-5:].sum() < metrics["diverged"][:5].sum()
    assert np.isfinite(metrics["fitness_mean"]).all()
    assert np.isfinite(metrics["fitness_std"]).all()
    assert distance(this.result(state)) < 0.4
    evaluate = jax.vmap(this.problem.evaluate, in_axes=(None, 0, None))
    fitness = np.asarray(evaluate(key, population, 0).fitness)
    assert np.isnan(fitness).sum() == metrics["diverged"][0] > 0
    kept = fitness[~np.isnan(fitness)]
    for name, quantile in (("fitness_low", 0.1), ("fitness_high", 0.9)):
        np.testing.assert_allclose(metrics[name][0], np.quantile(kept, quantile), rtol=1e-4)
    assert metrics["fitness_high"][0] <= metrics["fitness_best"][0]


def test_blocks_do_not_matter_and_do_not_recompile(validated, compilations):
    this = validated
    start, again = begun(this), begun(this)
    whole, metrics = run(this, 8, state=start)
    traces, compiled = this.problem.traces, compilations()
    assert traces > 0
    state, parts = run(this, 3, 4, 1, state=again)
    assert_same(jax.device_get(whole), jax.device_get(state))
    assert_same(metrics, parts)
    assert this.problem.traces == traces
    assert compilations() == compiled


def assert_close(one, other):
    """Equal but for the last bits: XLA fuses the same arithmetic in different ways."""
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), one, other)


def moved(one, other, *blocks):
    state, before = run(one, *blocks)
    state = devices.replicate(jax.device_get(devices.first(state)), other.num_devices)
    state, after = run(other, *blocks, state=state)
    metrics = {key: np.concatenate([before[key], after[key]]) for key in before}
    return jax.device_get(other.result(state)), metrics


@pytest.mark.long
def test_training_hardly_depends_on_the_layout():
    """One by one, vmapped on 2 devices, and on 4: rounding only, over a short horizon."""
    results, layouts = [], [(1, 1), (2, 2), (4, 1)]
    evolutions = [
        evolution(toy.q_problem(), {"num_devices": n, "chunk_size": size}, population_size=4)
        for n, size in layouts
    ]
    for this in evolutions:
        state, metrics = run(this, 2)
        results.append((jax.device_get(this.result(state)), metrics))
    for one, other in (evolutions[:2], evolutions[1::-1]):  # resumed on more and on fewer devices
        results.append(moved(one, other, 1))
    for result, metrics in results[1:]:
        assert_close(result, results[0][0])
        assert_close(metrics, results[0][1])
    one_by_one, on_four = ({key: value[0] for key, value in results[i][1].items()} for i in (0, 2))
    assert_same(one_by_one, on_four)  # agents that are not vmapped have the same bits anywhere
    assert len(set(results[0][1]["fitness_mean"])) == 2  # it did evaluate something


@pytest.mark.long
@pytest.mark.parametrize("name", ["Open_ES", "SimpleGA", "low_rank_es"])
def test_other_step_sizes_and_seeds_do_not_recompile(name):
    problem, decay = Quadratic(noise=0.5), {"sigma_decay": 0.9, "learning_rate_decay": 0.9}
    first = evolution(problem, algorithm=name, **decay)
    run(first, 3)
    traces = problem.traces
    steps = {"sigma": 0.17, "learning_rate": 0.23}
    other = replace(first.strategy, **steps)
    state, metrics = run(first, 3, state=begun(first, 5, other))
    assert problem.traces == traces
    fresh = evolution(Quadratic(noise=0.5), algorithm=name, **steps, **decay)
    expected_state, expected = run(fresh, 3, state=begun(fresh, 5))
    assert_same(metrics, expected)
    assert_same(devices.first(state), devices.first(expected_state))
    with pytest.raises(ValueError, match="only traced numbers"):
        first.start(5, evolution(algorithm=name, population_size=8).strategy)


@pytest.mark.parametrize(("num_devices", "agents"), [(1, 30), (4, 8)])
def test_a_chunk_has_no_more_agents_than_a_device_evaluates(num_devices, agents):
    config = {"seeds_per_candidate": 3, "num_devices": num_devices, "chunk_size": 64}
    this = evolution(config=config, population_size=10)
    assert this.chunk_size == agents
    assert this.layout.candidate_rows == agents * num_devices
    assert evolution(config=config | {"chunk_size": 2}, population_size=10).chunk_size == 2
