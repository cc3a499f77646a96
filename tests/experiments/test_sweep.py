import csv
import json
import shutil

import jax
import pytest

from metaevo.commands.sweep import main
from metaevo.config import from_dict, load_yaml
from metaevo.runs.run_directory import RunDirectory
from metaevo.tasks.population import Population
from metaevo.training.settings import training_class
from metaevo.tuning import report
from metaevo.tuning.study import Study
from tests.metaevo.evolving import settings_of

pytestmark = pytest.mark.long

TINY = """
learner: q_learning
task: {env: GridWorld, env_params: {size: 4, max_steps_in_episode: 20}}
train: {total_timesteps: 900, num_steps: 100}
hyperparams: {epsilon_start: 0.3}
fitness: {mean_return: 0.0, reward_per_step: 1.0}
space:
  hyperparams.learning_rate: {log_uniform: [0.01, 0.9]}
  hyperparams.epsilon_start: {uniform: [0.1, 1.0]}
sweep: {trials: 6, sampler: random, batch: 2, seeds: 2, confirm_seeds: 4}
"""
RATE = "hyperparams.learning_rate"


@pytest.fixture(autouse=True)
def fewer_figures(request, monkeypatch):
    """Draw figures in one test only; the others take seconds."""
    if "schedule" not in request.fixturenames:
        monkeypatch.setattr(report, "draw", lambda study, directory: [])


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    config = tmp_path_factory.mktemp("config") / "tiny.yaml"
    config.write_text(TINY)

    def run(path, line="", *more, resume=False):
        begin = ["--resume"] if resume else ["--config", str(config)]
        if not resume and "--evolve" not in line:
            begin += ["--run.num_devices", "1"]
        argv = [*begin, *line.split(), *more]
        assert main([*argv, "--run-dir", str(path)]) == 0
        return path

    return run


@pytest.fixture(scope="module")
def finished(sweep, tmp_path_factory):
    return sweep(tmp_path_factory.mktemp("runs") / "finished")


def table(path):
    with (path / "trials.csv").open() as file:
        return list(csv.DictReader(file))


def check_results(path):
    rows, run = table(path), RunDirectory(path)
    assert [record["trial"] for record in run.read_metrics("trial")] == list(range(6))
    assert [int(row["trial"]) for row in rows] == list(range(6))
    result = json.loads((path / "evaluation.json").read_text())
    assert len(result["variants"][0]["scores"]) == 4
    assert result["conclusion"] in ("better", "worse", "undecided")
    assert [each["evaluation"] for each in run.read_metrics("evaluation")] == [0, 1]
    assert (path / "report.html").exists()
    return rows, result


def test_a_random_sweep_writes_all_files(finished):
    rows, result = check_results(finished)
    assert [row["outcome"] for row in rows] == ["complete"] * 6
    for row in rows:
        mean = (float(row["score_0"]) + float(row["score_1"])) / 2
        assert float(row["value"]) == pytest.approx(mean)
    best = max(rows, key=lambda row: float(row["value"]))
    assert result["best_trial"] == int(best["trial"])
    kept = load_yaml(finished / "best.yaml")  # a config for trainings and evolutions
    assert kept["hyperparams"]["learning_rate"] == float(best[RATE])
    assert kept["fitness"]["reward_per_step"] == 1.0
    assert from_dict(training_class(kept), kept).value_loss == kept.pop("value_loss")
    assert settings_of({**kept, "evolve": "value_loss"}).hyperparams.learning_rate > 0


@pytest.mark.parametrize(
    "schedule", ["successive_halving --sweep.batch 6", "hyperband --sweep.sampler tpe"]
)
def test_every_scheduler_writes_all_files(schedule, sweep, tmp_path):
    line = f"--sweep.eta 3 --sweep.min_fraction 0.33 --sweep.scheduler {schedule}"
    path = sweep(tmp_path / "run", line)
    rows, _ = check_results(path)
    assert (path / "figures" / "optimisation_history.png").read_bytes()[:4] == b"\x89PNG"
    frames = [int(row["frames"]) for row in rows]
    if "batch" in schedule:  # 3 updates of 9 for all, the rest for some
        assert set(frames) == {2 * 300, 2 * 900}
        assert [row["outcome"] for row in rows].count("pruned") == frames.count(2 * 300)
        assert (path / "figures" / "rungs.png").exists()


def test_a_finished_sweep_can_be_confirmed_again(finished, sweep, tmp_path, capsys):
    copy = shutil.copytree(finished, tmp_path / "finished")
    before = (copy / "report.html").read_bytes()
    sweep(copy, resume=True)
    assert "is finished (6 trials)" in capsys.readouterr().out
    assert (copy / "report.html").read_bytes() == before
    sweep(copy, "--sweep.confirm_seeds 5", resume=True)
    result = json.loads((copy / "evaluation.json").read_text())
    assert result["variants"][0]["seeds"] == 5
    assert len(RunDirectory(copy).read_metrics("evaluation")) == 2


def test_a_sweep_that_fails_loses_no_finished_trial(
    finished, sweep, tmp_path, monkeypatch, refused
):
    path, told, trained, init = tmp_path / "run", [], [], Population.init

    def fail(study, *arguments):
        told.append(1)
        if len(told) == 4:  # in the middle of the second batch
            raise RuntimeError("stop")
        return tell(study, *arguments)

    def record(self, keys, settings):
        trained.append((set(map(tuple, jax.random.key_data(keys).tolist())), len(settings)))
        return init(self, keys, settings)

    tell = Study.tell
    with monkeypatch.context() as patch:
        patch.setattr(Study, "tell", fail)
        with pytest.raises(RuntimeError, match="stop"):
            sweep(path)
    assert len(RunDirectory(path).read_metrics("trial")) == 3
    monkeypatch.setattr(Population, "init", record)
    sweep(path, resume=True)
    # the lost one with a new one, the last one, the confirmation
    assert [count for _, count in trained] == [2, 1, 1, 1]
    ours, whole = ([{**row, "trial": ""} for row in table(each)] for each in (path, finished))
    assert sorted(map(str, ours)) == sorted(map(str, whole))
    search, *confirmation = [keys for keys, _ in (trained[0], *trained[2:])]
    assert (len(search), [len(keys) for keys in confirmation]) == (2, [4, 4])
    assert confirmation[0] == confirmation[1]
    assert not search & confirmation[0]
    (path / "report.html").unlink()
    (path / "study.journal").unlink()
    assert "the study has no trial 0" in refused(main, ["--resume", "--run-dir", str(path)])


def test_a_planted_setting_is_found_and_confirmed(sweep, tmp_path):
    line = "--sweep.sampler grid --sweep.confirm_seeds 8 --hyperparams.epsilon_start 1"
    path = sweep(tmp_path / "run", line, "--space", "{hyperparams.epsilon_start: [1.0, 0.1, 0.9]}")
    rows, result = table(path), json.loads((path / "evaluation.json").read_text())
    tried = [row["hyperparams.epsilon_start"] for row in rows]
    assert sorted(tried) == ["0.1", "0.9", "1.0"]
    assert result["best_trial"] == tried.index("0.1")
    assert result["conclusion"] == "better"
    winner, before = result["variants"]
    assert winner["settings"] == {"hyperparams.epsilon_start": 0.1}
    assert min(winner["scores"]) > max(before["scores"])


def test_invalid_static_groups_are_reported(sweep, tmp_path, capsys):
    space = "{train.num_steps: [50, 150], train.total_timesteps: [120, 200]}"
    line = "--sweep.sampler grid --sweep.confirm_seeds 0"
    path = sweep(tmp_path / "run", line, "--space", space)
    outcomes = [row["outcome"] for row in table(path)]
    assert sorted(outcomes) == ["complete", "complete", "complete", "failed"]
    assert all("must be at least" in row["reason"] for row in table(path) if row["frames"] == "0")
    assert "must be at least" in capsys.readouterr().err
    assert not (path / "evaluation.json").exists()


def test_a_sweep_over_evolutions(sweep, tmp_path, caplog):
    line = (
        "--evolve value_loss --train.total_timesteps 200 --component.hidden_sizes [2] "
        "--evolution.generations 2 --evolution.validation_seeds 2 --strategy.population_size 4 "
        "--evolution.num_devices 1 --sweep.sampler grid --sweep.seeds 1 --sweep.confirm_seeds 1"
    )
    space = "{strategy.sigma: [0.01, 0.3], strategy.population_size: [4, 6]}"
    with jax.log_compiles(), caplog.at_level("WARNING"):
        path = sweep(tmp_path / "run", line, "--space", space)
    # Two population sizes, each with a program that evolves and one that judges: sigma has none.
    assert sum("Finished XLA compilation of jit(_fun)" in each for each in caplog.messages) == 4
    rows = table(path)
    assert sorted(row["strategy.population_size"] for row in rows) == ["4", "4", "6", "6"]
    assert {row["outcome"] for row in rows} == {"complete"}
    best = load_yaml(path / "best.yaml")
    assert best["strategy"]["sigma"] in (0.01, 0.3)
    assert settings_of(best).evolve == "value_loss"
