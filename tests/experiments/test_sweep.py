"""experiments/sweep.py from end to end, with agents that learn a grid of 4 x 4 in no time."""

import csv
import json
import shutil

import jax
import pytest

from metaevo.commands.sweep import main
from metaevo.config import from_dict, load_yaml
from metaevo.runs.run_directory import RunDirectory
from metaevo.tasks.population import Population
from metaevo.training import settings as trainee
from metaevo.tuning import figures
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
run: {num_devices: 1}
"""
RATE = "hyperparams.learning_rate"
SCHEDULES = {
    "successive_halving": "--sweep.scheduler successive_halving --sweep.batch 6 --sweep.eta 3 "
    "--sweep.min_fraction 0.33",
    "hyperband": "--sweep.scheduler hyperband --sweep.sampler tpe --sweep.min_fraction 0.33",
}


@pytest.fixture(autouse=True)
def fewer_figures(request, monkeypatch):
    """Draw figures in one test only; the others take seconds."""
    if "schedule" not in request.fixturenames:
        monkeypatch.setattr(figures, "draw", lambda study, directory: [])


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """Run a sweep in this process; its directory."""
    config = tmp_path_factory.mktemp("config") / "tiny.yaml"
    config.write_text(TINY)

    def run(path, line="", *more, resume=False):
        begin = ["--resume"] if resume else ["--config", str(config)]
        argv = [*begin, *line.split(), *more]
        assert main([*argv, "--run-dir", str(path)], description=None) == 0
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
    assert {row["outcome"] for row in rows} <= {"complete", "pruned"}
    result = json.loads((path / "evaluation.json").read_text())
    assert len(result["variants"][0]["scores"]) == 4
    assert result["conclusion"] in ("better", "worse", "undecided")
    assert [each["evaluation"] for each in run.read_metrics("evaluation")] == [0, 1]
    assert (path / "report.html").exists()
    best = load_yaml(path / "best.yaml")
    assert from_dict(trainee.training_class(best), best).hyperparams.learning_rate > 0
    settings_of({**best, "evolve": "value_loss"})
    return rows, result


def test_a_random_sweep_writes_all_files(finished):
    rows, result = check_results(finished)
    assert [row["outcome"] for row in rows] == ["complete"] * 6
    for row in rows:
        mean = (float(row["score_0"]) + float(row["score_1"])) / 2
        assert float(row["value"]) == pytest.approx(mean)
    best = max(rows, key=lambda row: float(row["value"]))
    assert result["best_trial"] == int(best["trial"])
    kept = load_yaml(finished / "best.yaml")
    assert kept["hyperparams"]["learning_rate"] == float(best[RATE])
    assert kept["fitness"]["reward_per_step"] == 1.0


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_scheduler_writes_all_files(schedule, sweep, tmp_path):
    path = sweep(tmp_path / "run", SCHEDULES[schedule])
    rows, _ = check_results(path)
    assert (path / "figures" / "optimisation_history.png").read_bytes()[:4] == b"\x89PNG"
    frames = [int(row["frames"]) for row in rows]
    if schedule == "successive_halving":  # 3 updates of 9 for all, the rest for some
        assert set(frames) == {2 * 300, 2 * 900}
        assert [row["outcome"] for row in rows].count("pruned") == frames.count(2 * 300)
        assert (path / "figures" / "rungs.png").exists()


def record_trainings(monkeypatch):
    """The keys and the number of trials of every training from now on."""
    trained, real = [], Population.init

    def init(self, keys, settings):
        trained.append((jax.random.key_data(keys).tolist(), len(settings)))
        return real(self, keys, settings)

    monkeypatch.setattr(Population, "init", init)
    return trained


def test_resumed_equals_uninterrupted(finished, sweep, tmp_path, monkeypatch, killed_at):
    path = tmp_path / "run"
    with killed_at(Study, "tell", 4):  # in the middle of the second batch
        sweep(path)
    assert len(RunDirectory(path).read_metrics("trial")) == 2
    trained = record_trainings(monkeypatch)
    sweep(path, resume=True)
    # the lost one with a new one, the last one, the confirmation
    assert [count for _, count in trained] == [2, 1, 1, 1]
    assert table(path) == table(finished)
    for name in ("best.yaml", "evaluation.json"):
        assert (path / name).read_text() == (finished / name).read_text()
    logged = [record["trial"] for record in RunDirectory(path).read_metrics("trial")]
    assert logged == list(range(6))


def test_a_finished_sweep_can_be_confirmed_again(finished, sweep, tmp_path, capsys):
    copy = shutil.copytree(finished, tmp_path / "finished")  # the study has the directory's name
    before = (copy / "report.html").read_bytes()
    sweep(copy, resume=True)
    assert "is finished (6 trials)" in capsys.readouterr().out
    assert (copy / "report.html").read_bytes() == before
    sweep(copy, "--sweep.confirm_seeds 5", resume=True)
    result = json.loads((copy / "evaluation.json").read_text())
    assert result["variants"][0]["seeds"] == 5
    assert len(RunDirectory(copy).read_metrics("evaluation")) == 2


PLANTED = (
    "--sweep.sampler grid --sweep.trials 3 --sweep.confirm_seeds 8 --hyperparams.epsilon_start 1"
)


def test_a_planted_setting_is_found_and_confirmed(sweep, tmp_path):
    space = "{hyperparams.epsilon_start: {choice: [1.0, 0.1, 0.9]}}"
    path = sweep(tmp_path / "run", PLANTED, "--space", space)
    rows, result = table(path), json.loads((path / "evaluation.json").read_text())
    tried = [row["hyperparams.epsilon_start"] for row in rows]
    assert sorted(tried) == ["0.1", "0.9", "1.0"]
    assert result["best_trial"] == tried.index("0.1")
    assert result["conclusion"] == "better"
    winner, before = result["variants"]
    assert winner["settings"] == {"hyperparams.epsilon_start": 0.1}
    assert min(winner["scores"]) > max(before["scores"])


def test_search_and_confirmation_share_no_seeds(sweep, tmp_path, monkeypatch):
    trained = record_trainings(monkeypatch)
    sweep(tmp_path / "run", "--sweep.trials 2")
    search, *confirmation = [set(map(tuple, keys)) for keys, _ in trained]
    assert len(search) == 2
    assert [len(keys) for keys in confirmation] == [4, 4]
    assert confirmation[0] == confirmation[1]
    assert not search & confirmation[0]


def test_the_winner_is_a_config_for_trainings_and_evolutions(sweep, tmp_path):
    line = "--sweep.sampler grid --sweep.confirm_seeds 0"
    path = sweep(tmp_path / "run", line, "--space", "{value_loss: {choice: [huber]}}")
    best = load_yaml(path / "best.yaml")
    assert from_dict(trainee.training_class(best), best).value_loss == "huber"
    assert best.pop("value_loss") == "huber"
    assert settings_of({**best, "evolve": "value_loss"}).hyperparams.epsilon_start == 0.3
    assert not (path / "evaluation.json").exists()


def test_invalid_static_groups_are_reported(sweep, tmp_path, capsys):
    space = "{train.num_steps: {choice: [50, 100]}, task.env: {choice: [CartPole-v1, GridWorld]}}"
    line = "--sweep.sampler grid --sweep.confirm_seeds 0 --task.env_params {}"
    path = sweep(tmp_path / "run", line, "--space", space)
    outcomes = [row["outcome"] for row in table(path)]
    assert sorted(outcomes) == ["complete", "complete", "failed", "failed"]
    assert all("no state index" in row["reason"] for row in table(path) if row["frames"] == "0")
    assert "no state index" in capsys.readouterr().err


EVOLUTION = (
    "--evolve value_loss --train.total_timesteps 200 --component.hidden_sizes [2] "
    "--evolution.generations 2 --evolution.validation_seeds 2 --strategy.population_size 4 "
    "--sweep.sampler grid --sweep.grid_points 2 --sweep.trials 4 --sweep.seeds 1 "
    "--sweep.confirm_seeds 1"
)


def test_a_sweep_over_evolutions(sweep, tmp_path, caplog):
    space = (
        "{strategy.sigma: {log_uniform: [0.01, 0.3]}, strategy.population_size: {choice: [4, 6]}}"
    )
    with jax.log_compiles(), caplog.at_level("WARNING"):
        path = sweep(tmp_path / "run", EVOLUTION, "--space", space)
    # Two population sizes, each with a program that evolves and one that judges: sigma has none.
    assert sum("Finished XLA compilation of jit(_fun)" in each for each in caplog.messages) == 4
    rows = table(path)
    assert sorted(row["strategy.population_size"] for row in rows) == ["4", "4", "6", "6"]
    assert {row["outcome"] for row in rows} == {"complete"}
    best = load_yaml(path / "best.yaml")
    assert best["strategy"]["sigma"] in (0.01, 0.3)
    assert settings_of(best).evolve == "value_loss"
