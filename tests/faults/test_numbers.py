import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metaevo.__main__ import main
from metaevo.config import ConfigError, dump_yaml
from metaevo.evolution.evosax import StrategyConfig, algorithms
from metaevo.evolution.problem import Evaluation
from metaevo.evolution.strategy import with_worst_for_failed
from purerl.envs import registry
from purerl.envs.grid_world import GridWorld
from tests.faults.fuzzing import SCRIPTS
from tests.faults.works import records
from tests.metaevo.evolving import EVOLUTION, GRID
from tests.metaevo.toy import Point

HUGE = np.linspace(-3e38, 3e38, 16, dtype=np.float32)
FAILED = np.arange(16) % 3 == 0


@pytest.mark.parametrize("fitness", [HUGE, np.full(16, 3e38, np.float32), -np.abs(HUGE)])
def test_fitness_for_strategies_and_its_squares_are_finite(fitness):
    told = np.asarray(with_worst_for_failed(jnp.where(FAILED, jnp.nan, fitness)))
    assert np.isfinite(np.sum(np.square(np.tile(told, 1000)), dtype=np.float32))
    assert told[FAILED].max() < told[~FAILED].min()
    assert (np.diff(told[~FAILED][np.argsort(fitness[~FAILED])]) >= 0).all()


def huge(name, shaping):
    strategy = StrategyConfig(
        algorithm=name, population_size=16, sigma=0.3, fitness_shaping=shaping
    )
    strategy = strategy.bind(Point(16))
    state = strategy.init(jax.random.key(0), lambda key: 0.1 * jax.random.normal(key, (16,)))
    generations = [HUGE, jnp.where(FAILED, jnp.nan, HUGE), HUGE * 1e-8, np.arange(16.0)]
    for index, fitness in enumerate(generations):
        key = jax.random.key(index)
        population, asked = strategy.ask(key, state)
        told = with_worst_for_failed(jnp.asarray(fitness, jnp.float32))
        state = strategy.tell(key, population, Evaluation(told, {}), asked)
        yield np.asarray(strategy.best(state))


@pytest.mark.faults
@pytest.mark.parametrize("shaping", ["auto", "standardize"])
@pytest.mark.parametrize("name", sorted(algorithms()))
def test_huge_fitness_leaves_a_finite_result(name, shaping):
    if name in ("DES", "SimpleES") and shaping != "auto":
        with pytest.raises(ConfigError, match="needs weights that are not negative"):
            next(huge(name, shaping))
        return
    assert all(np.isfinite(best).all() for best in huge(name, shaping))


@pytest.mark.parametrize("where", ["reset", "step"])
@pytest.mark.parametrize("error", [KeyError, AssertionError, ZeroDivisionError, RuntimeError])
def test_an_environment_that_raises_when_it_is_traced_is_named(where, error, monkeypatch):
    def raising(*_, **__):
        raise error("no simulator")

    broken = f"Broken-{where}-{error.__name__}"  # built environments are kept by their names
    monkeypatch.setitem(registry.OWN, broken, type("Broken", (GridWorld,), {where: raising}))
    for name in ("evolve_value_loss", "train", "sweep"):
        line = ["--learner", "q_learning", "--task.env", broken]
        line += ["--space.hyperparams.gamma", "{uniform: [0, 1]}"] if name == "sweep" else []
        complaint = SCRIPTS[name].attempt(line) or ""
        assert f"{broken} cannot be reset and stepped: {error.__name__}" in complaint


@pytest.fixture
def call(tmp_path, capfd):
    def run(command, config, name="run", *, code=0):
        path = tmp_path / "given.yaml"
        path.write_text(dump_yaml(config), encoding="utf-8")
        is_new = not (tmp_path / name).exists()
        begin = ["--config", str(path)] if is_new else ["--resume"]
        try:
            found = main([command, *begin, "--run-dir", str(tmp_path / name)])
        except SystemExit as end:
            found = end.code
        error = capfd.readouterr().err
        assert found == code, error
        return error

    return run


@pytest.mark.faults
def test_a_sweep_of_which_all_trials_diverge(call, tmp_path):
    config = {
        **GRID,
        "space": {"hyperparams.initial_value": {"choice": [-float("inf"), float("inf")]}},
        "sweep": {"sampler": "grid", "seeds": 2, "confirm_seeds": 2, "trials": 2},
    }
    assert "no trial of 2 ended with a score" in call("sweep", config, code=2)
    trials = [each for each in records(tmp_path / "run") if each["kind"] == "trial"]
    assert [each["value"] for each in trials] == [None, None]


@pytest.mark.faults
def test_a_run_resumes_after_an_environment_raises(call, tmp_path, monkeypatch):
    steps, limit = [], [10**9]

    def count(time):
        steps.append(1)
        if len(steps) > limit[0]:
            raise RuntimeError("the simulator has crashed")
        return time

    class Raising(GridWorld):
        def step(self, key, state, action, params=None):
            shape = jax.ShapeDtypeStruct((), jnp.int32)
            time = jax.pure_callback(count, shape, state.time, vmap_method="sequential")
            return super().step(key, state.replace(time=time), action, params)

    monkeypatch.setitem(registry.OWN, "Raising", Raising)
    config = {**EVOLUTION, "task": {"env": "Raising", "env_params": {"size": 4}}}
    config["evolution"] = {"generations": 8, "seeds_per_candidate": 1, "validation_seeds": 0}
    call("evolve", config, "whole")
    limit[0] = len(steps) * 3 // 2
    error = call("evolve", config, "broken", code=1)
    assert "the simulator has crashed" in (tmp_path / "broken" / "error.txt").read_text()
    lines = [each for each in error.splitlines() if each.startswith("error: the run has failed")]
    assert len(lines) == 1
    assert "--resume --run-dir" in lines[0]
    assert len(records(tmp_path / "broken")) < 8
    limit[0] = 10**9
    call("evolve", config, "broken")
    assert records(tmp_path / "broken") == records(tmp_path / "whole")
