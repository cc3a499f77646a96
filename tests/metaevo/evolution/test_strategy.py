import contextlib
import pickle

import evosax.algorithms as evosax_algorithms
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from evosax.learned_evolution import les_tools

from metaevo.config import ConfigError
from metaevo.evolution.evosax import UNPICKLING, UNSUITABLE, StrategyConfig, algorithms
from metaevo.evolution.loop import EvolutionConfig
from metaevo.evolution.problem import Evaluation
from metaevo.evolution.strategy import check_evolution, with_worst_for_failed
from tests.metaevo.evolution.test_genetic_programming import Regression
from tests.metaevo.toy import TARGET, Point, assert_same, stepper

IMPROVING = (
    "Open_ES", "PGPE", "SNES", "CR_FM_NES", "Sep_CMA_ES", "SimpleGA", "CMA_ES", "DES",
    "DifferentialEvolution", "PSO",
)  # fmt: skip


# One of each kind; the others compile in `make test-slow` only: pytest -m slow THIS_FILE
MARKS = {"Open_ES": [], "SimpleGA": []}
MARKS |= {"SNES": [pytest.mark.long], "DiffusionEvolution": [pytest.mark.long]}


def marked(names):
    return [pytest.param(name, marks=MARKS.get(name, [pytest.mark.slow])) for name in names]


EVERY = marked(sorted(algorithms()))


def is_finite(solution):
    return bool(np.isfinite(solution).all())


def counts(state):
    """The step counts in the optimizer's state."""
    leaves = jax.tree.leaves(getattr(state, "opt_state", ()))
    return [int(leaf) for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.integer)]


@pytest.mark.parametrize("name", marked(IMPROVING))
def test_improves(name):
    """Also population-based ones whose state starts without a fitness: negative beats none."""
    this = stepper(name)
    states = this.run(*["normal"] * 40)

    def distance(state):
        return np.linalg.norm(this.best(state) - TARGET)

    assert distance(states[-1]) < 0.85 * distance(states[1])


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("mode", ["tied", "all failed"])
def test_ties_do_not_change_the_strategy(name, mode):
    this = stepper(name)
    before, after = this.run("normal", "normal", mode)[-2:]
    np.testing.assert_array_equal(this.best(after), this.best(before))
    assert int(after.generation_counter) == 3
    assert counts(after) == [3] * len(counts(after))  # schedules go on counting
    if hasattr(this.strategy.core, "std_schedule"):
        np.testing.assert_allclose(after.std, 0.3 * 0.9**3, rtol=1e-6)
    recovered = this.run("normal", "normal", mode, "normal")[-1]
    assert is_finite(this.best(recovered))


@pytest.mark.parametrize("name", EVERY)
def test_failed_candidates_do_not_poison(name):
    this = stepper(name)
    for modes in (
        ("some failed", "some failed", "normal"),
        ("all failed", "tied", "normal", "normal"),
    ):
        states = this.run(*modes)[1:]
        assert all(is_finite(this.best(state)) for state in states)
        if this.strategy.has_mean:
            assert is_finite(states[-1].mean)


def test_failed_candidates_rank_last():
    strategy = StrategyConfig(population_size=8, optimizer="sgd").bind(Point(3))
    state = strategy.init(jax.random.key(0), lambda key: jnp.zeros(3))
    population, asked = strategy.ask(jax.random.key(1), state)
    fitness = jnp.arange(8.0) - 20.0

    @jax.jit
    def told(fitness):
        evaluation = Evaluation(with_worst_for_failed(fitness), {})
        return strategy.tell(jax.random.key(2), population, evaluation, asked)

    for bad in (jnp.nan, jnp.inf, -jnp.inf):
        assert_same(told(fitness.at[3].set(bad)).mean, told(fitness.at[3].set(-99.0)).mean)


def test_schedules_are_geometric_in_the_generation():
    sigma = {"sigma": 0.5, "sigma_decay": 0.5, "sigma_limit": 0.1}
    rate = {"learning_rate": 1.0, "learning_rate_decay": 0.5, "learning_rate_limit": 0.2}
    strategy = StrategyConfig(population_size=8, optimizer="sgd", **sigma, **rate).bind(Point(3))
    state = strategy.init(jax.random.key(0), lambda key: jnp.zeros(3))

    @jax.jit
    def generation(state):
        population, asked = strategy.ask(jax.random.key(1), state)  # the same directions each time
        return strategy.tell(jax.random.key(2), population, Evaluation(jnp.arange(8.0), {}), asked)

    sigmas, steps = [], []
    for _ in range(5):
        told = generation(state)
        sigmas.append(float(strategy.current_sigma(state)))
        steps.append(float(jnp.linalg.norm(told.mean - state.mean)) * sigmas[-1])
        state = told
    np.testing.assert_allclose(sigmas, [0.5, 0.25, 0.125, 0.1, 0.1], rtol=1e-6)
    np.testing.assert_allclose(np.array(steps) / steps[0], [1, 0.5, 0.25, 0.2, 0.2], rtol=1e-5)


def test_algorithms_that_load_pickles_are_refused(monkeypatch):
    class UnpickledError(BaseException):
        pass

    def refuse(*_, **__):
        raise UnpickledError

    monkeypatch.setattr(les_tools, "_CheckpointUnpickler", refuse)
    for name in ("load", "loads"):
        monkeypatch.setattr(pickle, name, refuse)

    def loads_pickle(cls):
        with contextlib.suppress(TypeError):  # those that need more than this
            try:
                _ = cls(population_size=16, solution=jnp.zeros(3)).default_params
            except UnpickledError:
                return True
        return False

    everything = evosax_algorithms.algorithms
    assert {name for name, cls in everything.items() if loads_pickle(cls)} == UNPICKLING
    assert algorithms().keys() == set(everything) - UNPICKLING - UNSUITABLE


POINT, PROGRAMS = Point(4), Regression()
GENETIC = {"algorithm": "genetic_programming", "population_size": 64}
LOW_RANK = {"algorithm": "low_rank_es"}


@pytest.mark.parametrize(
    ("problem", "changed", "message"),
    [
        (POINT, {"algorithm": "OpenES"}, r"strategy\.algorithm = 'OpenES' .*Open_ES"),
        (POINT, {"algorithm": "LES"}, "pickle"),
        (POINT, {"settings": {"momentum": 1}}, "'momentum'"),
        (POINT, {"population_size": 7}, "population_size = 7"),
        (POINT, {"algorithm": "DifferentialEvolution", "settings": {"num_diff": 1.5}}, "num_diff"),
        (POINT, {"algorithm": "DiffusionEvolution", "settings": {"num_generations": 2.5}},
         "num_generations"),
        (POINT, GENETIC, "genetic_programming varies programs only; needs evolve: program"),
        (PROGRAMS, GENETIC | {"population_size": 4}, "population_size = 4: .* at least 8"),
        (PROGRAMS, GENETIC | {"settings": {"elites": 4}}, "'elites'; allowed: .*survivors, tourn"),
        (PROGRAMS, GENETIC | {"settings": {"survivors": 64}}, "survivors = 64: .* from 1 to 63"),
        (PROGRAMS, GENETIC | {"settings": {"tournament": 2.5}}, "tournament = 2.5"),
        (PROGRAMS, GENETIC | {"settings": {"tournament": True}}, "tournament = True"),
        (POINT, LOW_RANK | {"population_size": 7}, "population_size = 7: .*must be even"),
        (POINT, LOW_RANK | {"settings": {"rank": 0}}, "rank = 0"),
        (POINT, LOW_RANK | {"settings": {"rank": 1.5}}, "rank = 1.5"),
        (POINT, LOW_RANK | {"settings": {"ranks": 1}}, "'ranks'; allowed: .*rank, sigma"),
        (POINT, LOW_RANK | {"optimizer": "own"}, "optimizer = 'own'"),
    ],
)  # fmt: skip
def test_invalid_settings_are_refused_before_compilation(problem, changed, message):
    with pytest.raises(ConfigError, match=message) as raised:
        check_evolution(problem, StrategyConfig(**changed).build(), EvolutionConfig())
    assert "\n" not in str(raised.value)


def test_settings_reach_constructor_and_parameters():
    strategy = StrategyConfig(settings={"use_antithetic_sampling": False}).bind(Point(4))
    assert strategy.core.use_antithetic_sampling is False
    strategy = StrategyConfig(algorithm="DifferentialEvolution", settings={"crossover_rate": 0.25})
    assert strategy.bind(Point(4)).params.crossover_rate == 0.25


@pytest.mark.long
def test_only_diffusion_evolution_ends():
    StrategyConfig().check(Point(4), 129)
    diffusion = StrategyConfig(algorithm="DiffusionEvolution")
    diffusion.check(Point(4), 128)
    with pytest.raises(ConfigError, match=r"generations = 129: DiffusionEvolution runs for 128"):
        diffusion.check(Point(4), 129)
