import json

import jax
import numpy as np
import pytest

import metaevo
from metaevo.comparison.sources import directories
from metaevo.config import ConfigError
from metaevo.evolution.evosax import StrategyConfig
from metaevo.runs.checkpoint import load_tree
from metaevo.runs.run_directory import RunDirectory
from metaevo.studies import run as running
from metaevo.studies.conclusion import trouble
from metaevo.studies.evolutions import Evolutions
from metaevo.studies.run import run_evolutions
from metaevo.studies.settings import RunConfig
from metaevo.studies.study import Study
from tests.faults.works import records
from tests.metaevo import evolving
from tests.metaevo.evolving import stop_after
from tests.metaevo.toy import Quadratic, assert_same

pytestmark = pytest.mark.long

HAND_WRITTEN = ("squared", "huber", "sloped_squared")


def settings_of(count, **evaluation):
    raw = evolving.EVOLUTION | {
        "component": {"hidden_sizes": [4], "start": "random"},
        "evolution": {"generations": 3, "validation_every": 2, "validation_seeds": 2,
                      "chunk_size": 4, "num_devices": 1},
        "evaluation": {"seeds": 8, "settings": 2, "finalists": 2, "selection_seeds": 4,
                       "space": {"learning_rate": [0.1, 0.3]}, **evaluation},
        "run": {"seed": 3, "evolution_seeds": count},
    }  # fmt: skip
    return evolving.settings_of(raw)


def run(path, count, *, resume=False, **evaluation):
    settings = settings_of(count, **evaluation)
    study = Study(settings.build(path if resume else None), settings)
    assert run_evolutions(study, run_dir=path, resume=resume) == 0
    return metaevo.Scores.load(path / "scores.npz")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("evolutions")


@pytest.fixture(scope="module")
def several(folder):
    return run(folder / "several", 2)


def test_all_are_tuned_equally_and_one_evolution_scores_the_same_alone(several, folder):
    assert set(several.contenders[:2]) == {"learned seed 3", "learned seed 4"}
    assert several.contenders[2:] == HAND_WRITTEN
    assert several.discoveries == ("learned",)
    assert np.isfinite(several.screening).all()
    alone = run(folder / "alone", 1)
    for name in alone.contenders:
        ours = name.replace("learned", "learned seed 3")
        assert alone.iqm(name) == several.iqm(ours)


def test_the_chosen_evolution_is_loaded(several, folder, capsys):
    path = folder / "several"
    best = load_tree(path / "meta_params.npz")[1]["evolution_seed"]
    _, meta_params = metaevo.load(path)
    assert f"of its evolutions that of seed {best}, the best on" in capsys.readouterr().err
    _, expected = metaevo.load(path / f"seed_{best}")
    assert_same(jax.device_get(meta_params), jax.device_get(expected))
    assert several.contenders[0] == f"learned seed {best}"
    assert capsys.readouterr().err == ""
    assert not [each for each in metaevo.compare_runs(path).notes if "finished" in each]


def test_a_resumed_judgement_goes_on(several, folder):
    path = folder / "several"
    before = {each: each.stat().st_mtime_ns for each in path.glob("seed_*/me*")}
    before[path / "scores.npz"] = (path / "scores.npz").stat().st_mtime_ns
    (path / "report.html").unlink()  # as if it had been killed before
    again = run(path, 2, resume=True)
    np.testing.assert_array_equal(again.held_out, several.held_out)
    assert before == {each: each.stat().st_mtime_ns for each in before}
    assert (path / "report.html").exists()
    kinds = [json.loads(line)["kind"] for line in (path / "metrics.jsonl").read_text().splitlines()]
    assert kinds == ["evaluation"] * len(several.contenders)


def test_another_judgement_does_not_change_the_evolutions(several, folder):
    path, tasks = folder / "several", {"wide": {"env": "GridWorld", "env_params": {"size": 5}}}
    before = {each: each.stat().st_mtime_ns for each in path.glob("seed_*/*")}
    scores = run(path, 2, resume=True, seeds=4, unseen=tasks)
    assert scores.seeds == 4
    np.testing.assert_array_equal(scores.screening, several.screening)
    for each in (path / "seed_3" / ".lock", path / "seed_4" / ".lock"):
        before.pop(each)
    assert before == {each: each.stat().st_mtime_ns for each in before}
    unseen = metaevo.Scores.load(path / "unseen.npz")
    assert unseen.contenders == scores.contenders
    assert unseen.tasks == ("wide",)
    study = Study(settings_of(2).build(), settings_of(2))
    table = Evolutions(path, study).table({"scores": scores, "unseen": unseen})
    assert [row[0] for row in table.rows][:3] == ["seed 3", "seed 4", "all"]
    assert table.rows[2][2] == pytest.approx(np.mean([row[2] for row in table.rows[:2]]))
    assert table.rows[-1][2] == scores.iqm(scores.verdict().baseline).value


GENERATIONS, SEEDS = 12, (5, 6, 7)
STRATEGY = metaevo.OpenES(population_size=16, sigma=0.3, learning_rate=0.1)
CONFIG = metaevo.EvolutionConfig(
    validation_every=4, validation_seeds=2, block_size=2, num_devices=1
)


def evolve(path, *, count=3, first=5, problem=None, **options):
    return metaevo.evolve(
        problem or Quadratic(noise=1.0),
        strategy=options.pop("strategy", STRATEGY),
        evolution=CONFIG,
        generations=options.pop("generations", GENERATIONS),
        run=RunConfig(seed=first),
        evolution_seeds=count,
        run_dir=path,
        **options,
    )


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return evolve(tmp_path_factory.mktemp("several") / "run")


def test_another_seed_does_not_recompile(tmp_path, compilations, monkeypatch):
    problem, seen, real = Quadratic(noise=1.0), [], running._evolve

    def evolve_one(*arguments):
        real(*arguments)
        seen.append((compilations(), problem.traces))

    monkeypatch.setattr(running, "_evolve", evolve_one)
    evolve(tmp_path / "run", problem=problem)
    assert seen[0][0] > 0
    assert seen[0] == seen[1] == seen[2]


def assert_same_run(one, other):
    """Records and meta-parameters, of a single evolution or of several."""
    members = sorted(each.name for each in one.glob("seed_*"))
    assert members == sorted(each.name for each in other.glob("seed_*"))
    for name in [*members, "."]:
        assert records(one / name) == records(other / name)
        trees = [load_tree(path / name / "meta_params.npz") for path in (one, other)]
        assert_same(trees[0][0], trees[1][0])
        assert trees[0][1] == trees[1][1]


def test_each_evolution_equals_a_single_run_of_its_seed(found, tmp_path):
    assert sorted(each.name for each in found.path.glob("seed_*")) == ["seed_5", "seed_6", "seed_7"]
    alone = evolve(tmp_path / "alone", count=1, first=6)
    assert_same_run(found.path / "seed_6", alone.path)
    names = {each.name for each in alone.path.iterdir()} - {"figures", "report.html"}
    assert names == {each.name for each in (found.path / "seed_6").iterdir()}
    first, last = (records(found.path / f"seed_{seed}") for seed in (5, 7))
    assert first[-1]["fitness_mean"] != last[-1]["fitness_mean"]


def test_the_best_on_validation_seeds_is_returned(found):
    scores = [records(found.path / f"seed_{seed}")[-1]["fitness_of_mean"] for seed in SEEDS]
    best = SEEDS[int(np.argmax(scores))]
    tree, about = load_tree(found.path / "meta_params.npz")
    assert about["evolution_seed"] == best
    assert_same(tree, load_tree(found.path / f"seed_{best}" / "meta_params.npz")[0])
    assert_same(found.meta_params, tree)
    assert found.metrics == RunDirectory(found.path / f"seed_{best}").read_metrics("generation")


def test_a_stopped_run_of_several_resumes_exactly(found, tmp_path, monkeypatch, capsys):
    path = tmp_path / "run"
    stop_after(monkeypatch, 14)
    with pytest.raises(KeyboardInterrupt):
        evolve(path)
    assert f"--run-dir {path} (in Python: resume=True)" in capsys.readouterr().err
    monkeypatch.undo()
    assert not (path / "report.html").exists()
    assert 0 < sum(len(records(path / f"seed_{seed}")) for seed in SEEDS) < 3 * GENERATIONS
    (path / "scores.npz").touch()  # of an earlier end
    evolve(path, resume=True)
    assert_same_run(path, found.path)
    assert {"report.html", "scores.npz"} & {each.name for each in path.iterdir()} == {"report.html"}


def test_without_a_mean_the_best_elite_counts(tmp_path):
    strategy = StrategyConfig(algorithm="SimpleGA", population_size=16, sigma=0.3)
    ours = evolve(tmp_path / "run", count=2, strategy=strategy)
    scores = [
        max(each["fitness_of_mean"] or -np.inf for each in records(ours.path / f"seed_{seed}"))
        for seed in (5, 6)
    ]
    _, about = load_tree(ours.path / "meta_params.npz")
    assert about["evolution_seed"] == (5, 6)[int(np.argmax(scores))]


def test_other_commands_find_the_evolutions_of_a_run(found, tmp_path):
    paths = [found.path / f"seed_{seed}" for seed in SEEDS]
    assert directories(str(found.path)) == paths
    assert directories(str(found.path.parent)) == paths
    assert directories(str(paths[0])) == paths[:1]


def test_several_processes_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    with pytest.raises(ConfigError, match=r"run\.evolution_seeds = 3: must be 1 with several"):
        evolve(tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("diverged", "tied", "words"), [(8, False, "failed"), (0, True, "the same"), (7, False, None)]
)
def test_an_evolution_that_cannot_learn_is_diagnosed(diverged, tied, words):
    lesson = trouble([{"diverged": diverged, "tied": tied}] * 3, population_size=8)
    assert lesson is None if words is None else words in lesson
