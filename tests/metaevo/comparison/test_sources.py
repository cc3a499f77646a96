"""Runs read from directories, finished or not, from wandb and from MLflow."""

import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import wandb

from metaevo.comparison import run_directories, sources, trackers
from metaevo.comparison.seed_run import Source, seed_run
from metaevo.config import ConfigError
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.settings import RecordConfig
from metaevo.runs.trackers import Trackers
from tests.metaevo.comparison.conftest import write_records


def test_a_training_has_a_curve_and_scores_for_every_seed(make_run):
    source = run_directories.read(make_run("a", 100.0, seeds=3, seed=7))
    curves = [seed for seed in source.seeds if "mean_return" in seed.metrics]
    assert [seed.seed for seed in curves] == ["7/0", "7/1", "7/2"]
    assert source.complete
    records = RunDirectory(Path(source.name)).read_metrics("update")
    for index, seed in enumerate(curves):
        expected = [record["returns"][index] for record in records]
        np.testing.assert_allclose(seed.metrics["mean_return"], expected)
        # frames in the records are those of all three agents
        np.testing.assert_allclose(seed.axes["steps"], 100 * np.arange(1, 11))
        assert "evaluation:greedy policy" in seed.metrics
    assert curves[0].task == "CartPole-v1"


def test_an_unfinished_run(make_run):
    path = make_run("a", points=4, of=10, finished=False)
    with path.joinpath("metrics.jsonl").open("a") as file:
        file.write('{"kind": "upd')  # a line that is being written
    source = run_directories.read(path)
    assert not source.complete
    assert len(source.seeds[0].metrics["mean_return"]) == 4


def test_evolutions_and_sweeps_are_one_seed_each(tmp_path: Path):
    evolution = write_records(
        tmp_path / "e",
        {"evolution": {"generations": 4}, "run": {"seed": 3}, "opponent": {"seed": 7}},
        "generation",
        [{"fitness_mean": 5.0, "fitness_of_mean": value} for value in (1.0, None)],
        {"learned": [1.0, None], "b": [2.0, 0.5]},
    )
    source = run_directories.read(evolution)
    curve, *scored = source.seeds
    assert (curve.seed, curve.default) == ("3", "fitness_of_mean")
    assert set(curve.axes) == {"steps", "seconds", "generations"}
    assert scored[0].metrics == {"evaluation:learned": [1.0], "evaluation:b": [2.0]}
    assert scored[1].metrics["evaluation:learned"] == 0.5  # none counts as the worst of all

    config = {"sweep": {"trials": 4}, "run": {"seed": 1}}
    records = [{"value": value} for value in (2.0, 1.0, None, 3.0)]
    sweep = write_records(tmp_path / "s", config, "trial", records)
    (seed,) = run_directories.read(sweep).seeds
    assert seed.default == "best_value"
    np.testing.assert_array_equal(seed.metrics["best_value"], [2, 2, 2, 3])


def test_names_globs_and_folders_mix_and_a_run_counts_once(make_run, tmp_path: Path):
    for name in ("deep/one/a", "deep/one/b", "c"):
        make_run(name, rate=name)
    RunDirectory.create(tmp_path / "c" / "transfer", "x").write_config({}, {})  # inside a run
    found, notes = sources.read_all([str(tmp_path / "deep"), f"{tmp_path}/*", str(tmp_path / "c")])
    assert [Path(each.name).name for each in found] == ["a", "b", "c"]
    assert notes == []


def test_folders_may_have_brackets_in_their_names(make_run, tmp_path: Path, monkeypatch):
    for name in ("my runs [v2]/ppo_a", "my runs [v2]/ppo_b", "my runs [v2]/dqn", "my runs v"):
        make_run(name, rate=name)
    for folder in (tmp_path, Path()):
        monkeypatch.chdir(tmp_path)
        found, _ = sources.read_all([str(folder / "my runs [v2]" / "ppo*")])
        assert [Path(each.name).name for each in found] == ["ppo_a", "ppo_b"]
    found, _ = sources.read_all([f"{tmp_path}/my runs [v]", f"{tmp_path}/my runs [v2]/dq[mn]"])
    assert [Path(each.name).name for each in found] == ["my runs v", "dqn"]


def test_repeated_seeds_count_once(make_run):
    """The same settings and the same seed: of the two runs the longer one counts."""
    first = make_run("a", points=5, finished=False)
    second = make_run("b", points=10)
    other = make_run("c", seed=1)
    found, notes = sources.read_all([str(first), str(second), str(other)])
    assert [each.name for each in found] == [str(second), str(other)]
    assert [sum("mean_return" in seed.metrics for seed in each.seeds) for each in found] == [6, 6]
    assert len(notes) == 1
    assert str(first) in notes[0]


# --- wandb --------------------------------------------------------------------------------------


@pytest.fixture
def online(monkeypatch: pytest.MonkeyPatch):
    """`online(*runs)` replaces the used part of wandb.Api, as documented."""

    def replace_api(*runs: tuple[str, str, dict[str, Any], list[dict[str, Any]]]) -> None:
        found = {
            f"me/project/{name}": SimpleNamespace(
                id=name, state=state, config=config, scan_history=lambda rows=rows: iter(rows)
            )
            for name, state, config, rows in runs
        }
        api = SimpleNamespace(runs=lambda path: iter(found.values()), run=found.__getitem__)
        monkeypatch.setattr("wandb.Api", lambda timeout: api)

    return replace_api


def test_online_runs_are_read_through_the_api(online):
    rows = [{"_step": i, "_runtime": 2.0 * i, "global_step": 10 * i, "charts/episodic_return": i}
            for i in range(3)]  # fmt: skip
    online(
        ("r1", "finished", {"seed": 1, "lr": 0.1, "_wandb": {}}, rows),
        ("r2", "running", {"lr": 0.1}, rows[:2]),
        ("r3", "crashed", {}, []),
    )
    found = trackers.read("wandb:me/project")
    assert [source.complete for source in found] == [True, False, False]
    (seed,) = found[0].seeds
    assert (seed.seed, seed.default) == ("1", "charts/episodic_return")
    assert found[1].seeds[0].seed == "r2"
    assert "_wandb" not in seed.config
    np.testing.assert_array_equal(seed.axes["steps"], [0, 10, 20])
    np.testing.assert_array_equal(seed.axes["seconds"], [0, 2, 4])
    assert found[2].seeds == []
    (one,) = trackers.read("wandb:me/project/r2")
    assert one.name == "wandb:me/project/r2"
    online()
    with pytest.raises(ConfigError, match="there is no wandb run"):
        trackers.read("wandb:me/project")


def test_a_server_that_does_not_answer_is_one_line(monkeypatch: pytest.MonkeyPatch):
    def refuse(timeout: int) -> Any:
        raise OSError("no\nroute")

    monkeypatch.setattr("wandb.Api", refuse)
    with pytest.raises(ConfigError, match="wandb cannot be read: no"):
        trackers.read("wandb:me/project")


@pytest.mark.long
def test_an_offline_run_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("WANDB_MODE")
    wandb.teardown()  # the service of earlier tests, which may have ended
    run = RunDirectory.create(tmp_path / "n", "train")
    config = {
        "run": {"seed": 5, "wandb": "offline", "wandb_project": "p", "mlflow": None},
        "seeds": 4,
        "hyperparams": {"lr": 0.1},
    }
    run.write_config(config, {"run_id": "0123456789abcdef", "job_type": "train"})
    tracked = Trackers(run, RecordConfig(**config["run"]))
    for index in range(3):
        place = {"kind": "update", "update": index, "frames": 40 * (index + 1), "seconds": 0.5}
        record = {**place, "mean_return": 2.0 * index, "returns": [1.0]}
        run.append_metrics(record)
        tracked.log(record)
    run.report_path.write_text("finished", encoding="utf-8")
    tracked.close()
    (source,) = sources.read_all([f"wandb:{tmp_path}"])[0]
    assert source.complete
    (seed,) = source.seeds
    assert (seed.seed, seed.default) == ("5", "mean_return")
    assert seed.config["hyperparams.lr"] == 0.1
    np.testing.assert_array_equal(seed.axes["steps"], [10, 20, 30])  # of each of 4 agents
    np.testing.assert_array_equal(seed.metrics["mean_return"], [0, 2, 4])
    # A killed run lacks its end.
    (file,) = (file for file in tmp_path.rglob("*.wandb") if not file.parent.is_symlink())
    file.write_bytes(file.read_bytes()[:-200])
    (cut,) = trackers.read(f"wandb:{tmp_path}")
    assert not cut.complete
    file.write_bytes(b"no log of wandb")
    with pytest.raises(ConfigError, match="cannot read it"):
        trackers.read(f"wandb:{tmp_path}")


# --- MLflow -------------------------------------------------------------------------------------


@pytest.mark.long
def test_nested_runs_of_mlflow_are_seeds(tmp_path: Path):
    pytest.importorskip("mlflow")
    uri = f"sqlite:///{tmp_path}/store.db"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow uses what SQLAlchemy deprecates
        from mlflow.tracking import MlflowClient

        client = MlflowClient(uri)
        experiment = client.create_experiment("an experiment", artifact_location=str(tmp_path))
        parent = client.create_run(experiment, run_name="parent").info.run_id
        client.log_param(parent, "lr", "0.1")
        for seed in range(2):
            child = client.create_run(
                experiment, run_name=f"s{seed}", tags={"mlflow.parentRunId": parent}
            ).info.run_id
            client.log_param(child, "seed", str(seed))
            for step in range(3):
                client.log_metric(child, "return", 1.0 * step + seed, step=10 * step)
            if seed:
                client.set_terminated(child)
        found = trackers.read(f"mlflow:{uri}#an experiment")
        with pytest.raises(ConfigError, match=r"no experiment 'other'; there are: .*an exp"):
            trackers.read(f"mlflow:{uri}#other")
    by_seed = {source.seeds[0].seed: source for source in found}
    assert sorted(by_seed) == ["0", "1"]
    assert [by_seed[seed].complete for seed in "01"] == [False, True]
    (seed,) = by_seed["1"].seeds
    assert by_seed["1"].name == "mlflow:an experiment/parent/s1"
    assert seed.config == {"lr": 0.1, "seed": 1}
    assert seed.default == "return"
    np.testing.assert_array_equal(seed.axes["steps"], [0, 10, 20])
    np.testing.assert_array_equal(seed.metrics["return"], [1, 2, 3])
    with pytest.raises(ConfigError, match="there is no database"):
        trackers.read(f"mlflow:sqlite:///{tmp_path}/missing.db#an experiment")
    assert not (tmp_path / "missing.db").exists()  # MLflow would have made an empty one


def test_agents_of_a_tracker_are_the_seeds_of_their_run():
    config = {
        "run": {"seed": 5, "mlflow": "local"},
        "resolved": {"run_id": "abc"},
        "environment": {"command_line": "train.py", "jax": "0.10.2"},
        "hyperparams": {"lr": 0.1},
    }
    rows = [{"update/index": index, "update/frames": 40, "update/mean_return": 1.0}
            for index in range(3)]  # fmt: skip
    runs = [
        seed_run("mean", {**config, "seeds": 2}, rows, "x"),
        *(
            seed_run(str(agent), {**config, "agent": agent, "seeds": 1}, rows, "x")
            for agent in range(2)
        ),
        seed_run("other", {**config, "resolved": {"run_id": "def"}}, rows, "x"),
    ]
    found = trackers.without_means([Source(run.run, [run], True) for run in runs])
    assert [source.name for source in found] == ["0", "1", "other"]
    seeds = [source.seeds[0] for source in found]
    assert [seed.seed for seed in seeds] == ["5/0", "5/1", "5"]
    assert [seed.settings for seed in seeds] == [{"hyperparams.lr": "0.1"}] * 3
    np.testing.assert_array_equal(seeds[0].axes["steps"], [40, 40, 40])
    # `agent` is a setting like any other in somebody else's run
    (foreign,) = [seed_run("f", {"agent": "dqn"}, rows, "x")]
    assert foreign.settings == {"agent": "dqn"}
