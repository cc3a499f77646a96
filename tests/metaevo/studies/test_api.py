import jax.numpy as jnp
import numpy as np
import pytest

import metaevo
from metaevo.config import ConfigError, code
from tests.metaevo.toy import Quadratic, assert_same, distance

ZEROS = {"weights": np.zeros(3, np.float32), "bias": np.float32(0)}
CONFIG = metaevo.EvolutionConfig(validation_every=4, validation_seeds=2, block_size=2)
DECAYS = {"sigma_decay": 0.999, "learning_rate_decay": 0.999}
STRATEGY = metaevo.OpenES(population_size=32, sigma=0.3, learning_rate=0.1, **DECAYS)


def evolve(path, generations, **options):
    options |= {"strategy": STRATEGY, "evolution": CONFIG}
    return metaevo.evolve(Quadratic(), generations=generations, run_dir=path, **options)


@pytest.fixture(scope="module")
def through(tmp_path_factory):
    return evolve(tmp_path_factory.mktemp("evolve") / "through", 24)


@pytest.mark.parametrize("folder", [None, "run"])
def test_an_evolution_without_a_finite_candidate_ends_at_once(folder, tmp_path):
    class Undefined(Quadratic):
        def evaluate(self, key, meta_params, task):
            evaluation = super().evaluate(key, meta_params, task)
            return evaluation._replace(fitness=jnp.log(-evaluation.fitness))

    run_dir = folder and tmp_path / folder
    with pytest.raises(ConfigError, match=r"Undefined: all candidates.* NaN"):
        metaevo.evolve(Undefined(), strategy=STRATEGY, evolution=CONFIG, run_dir=run_dir)


def test_without_a_run_directory_the_result_is_the_same(through):
    found = evolve(None, 24)
    assert_same(found.meta_params, through.meta_params)
    for key in ("generation", "frames", "fitness_mean"):
        assert [each[key] for each in found.metrics] == [each[key] for each in through.metrics]
    assert found.path is None


@pytest.mark.long
def test_the_best_of_several_without_a_run_directory():
    found = evolve(None, 6, evolution_seeds=3)
    last = found.metrics[4]["fitness_of_mean"]  # validated every 4 generations
    alone = [evolve(None, 6, run=metaevo.RunConfig(seed=seed)) for seed in range(3)]
    assert last == max(each.metrics[4]["fitness_of_mean"] for each in alone)


def test_results_can_be_loaded(through, tmp_path):
    assert_same(metaevo.load(through.path), through.meta_params)
    through.save(tmp_path / "saved")
    assert_same(metaevo.load(tmp_path / "saved"), through.meta_params)
    with pytest.raises(ConfigError, match="already holds a run"):
        through.save(through.path)
    with pytest.raises(ConfigError, match=r"saved.*not empty"):
        through.save(tmp_path / "saved")


def test_the_result_of_any_problem_is_judged(through):
    start = metaevo.Contender("zeros", Quadratic(), ZEROS)
    scores = metaevo.judge([through, start], metaevo.Budget(seeds=32))
    assert scores.verdict().word == "better"
    found = 10 - distance(through.meta_params) ** 2
    assert scores.iqm("learned").value == pytest.approx(found, rel=1e-4)
    with pytest.raises(ConfigError, match="space: learned trains no learner"):
        metaevo.judge([through, start], space={"bias": [1, 2]})


def test_it_finds_the_optimum_and_leaves_a_run(through):
    assert distance(through.meta_params) < 0.3
    table = through.table()
    assert [record["generation"] for record in table] == list(range(24))
    assert {"fitness_mean", "fitness_of_mean", "luck"} <= table[0].keys()
    assert through.metrics[-1]["fitness_of_mean"] > through.metrics[0]["fitness_of_mean"]
    assert (through.path / "report.html").exists()
    assert (through.path / "figures" / "fitness.png").exists()
    assert (through.path / "figures" / "metrics.png").exists()  # of the problem's own metrics
    assert not (through.path / "evaluation.json").exists()  # there is nothing to compare it with


def test_a_changed_problem_cannot_be_resumed(through, monkeypatch):
    source = code.class_source
    monkeypatch.setattr(code, "class_source", lambda cls: source(cls) + b"# changed")
    with pytest.raises(ConfigError, match="cannot continue with other code: Quadratic"):
        evolve(through.path, 36, resume=True)
    monkeypatch.setattr(code, "class_source", lambda cls: None)  # as in a notebook
    assert len(evolve(through.path, 24, resume=True).metrics) == 24


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"generations": -3}, r"evolution\.generations = -3"),
        ({"strategy": {"sigmas": 1}}, r"unknown key 'strategy\.sigmas'"),
        ({"strategy": metaevo.OpenES(sigma=-1.0)}, r"strategy\.sigma"),
        ({"evolution": metaevo.EvolutionConfig(seeds_per_candidate=0)}, "seeds_per_candidate"),
        ({"evolution_seeds": 0}, r"run\.evolution_seeds"),
        ({"run": metaevo.RunConfig(seed=-1)}, r"run\.seed"),
    ],
)
def test_a_wrong_argument_is_named(options, key):
    with pytest.raises(ConfigError, match=key):
        metaevo.evolve(Quadratic(), **options)


def own(**methods):
    return type("Own", (Quadratic,), methods)()


def measuring(metrics):
    return own(evaluate=lambda self, key, x, task: metaevo.Evaluation(x["bias"], metrics))


def compared(name, point):
    return own(contenders=lambda self: [metaevo.Contender(name, self, point)])


@pytest.mark.parametrize(
    ("problem", "complaint"),
    [
        (own(init=lambda self, key: {}), "init"),
        (own(init=lambda self, key: {"x": jnp.zeros(3, int)}), "init.*'x'.*int32"),
        (own(evaluate=lambda self, key, x, task: x["bias"]), "evaluate: .*one array.*Evaluation"),
        (measuring({"each": jnp.zeros(3)}), r"evaluate: each.*\(3,\)"),
        (measuring({"fitness_mean": jnp.zeros(())}), "evaluate: metrics.*'fitness_mean'"),
        (measuring(None), "evaluate: metrics = None"),
        (compared("zeros", {"y": jnp.zeros(3)}), "contenders: zeros.*'y'.*'weights'"),
        (compared("learned", ZEROS), "contenders: 'learned'.*rename"),
        (Quadratic, "problem = .*Quadratic.*must be an object"),
        (3, "problem = 3"),
    ],
)
def test_invalid_problems_are_refused_before_writing(problem, complaint, tmp_path):
    with pytest.raises(ConfigError, match=complaint):
        metaevo.evolve(problem, generations=2, run_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()
