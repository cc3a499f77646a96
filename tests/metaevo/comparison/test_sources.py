"""Runs read from directories, finished or not, from wandb and from MLflow."""

import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import wandb

from metaevo.comparison import run_directories, sources, trackers
from metaevo.comparison.curves import with_metric
from metaevo.config import ConfigError
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.settings import RecordConfig
from metaevo.runs.trackers import Trackers
from tests.metaevo.comparison.conftest import write_records


def test_a_training_has_a_curve_and_a_held_out_score_for_every_agent(make_run):
    path, notes = make_run("a", 100.0, seeds=3, seed=7), []
    seeds = run_directories.read(path, notes)
    curves = [seed for seed in seeds if "mean_return" in seed.metrics and not seed.is_mean]
    assert [seed.seed for seed in curves] == ["7/0", "7/1", "7/2"]
    assert notes == []
    records = RunDirectory(path).read_metrics("update")
    for index, seed in enumerate(curves):
        expected = [record["returns"][index] for record in records]
        np.testing.assert_allclose(seed.metrics["mean_return"], expected)
        # frames in the records are those of all three agents
        np.testing.assert_allclose(seed.axes["steps"], 100 * np.arange(1, 11))
    held_out = [seed.seed for seed in seeds if "evaluation:greedy policy" in seed.metrics]
    assert held_out == ["7/0", "7/1", "7/2"]
    assert curves[0].task == "CartPole-v1"


def test_an_unfinished_run(make_run):
    path, notes = make_run("a", points=4, of=10, finished=False), []
    with path.joinpath("metrics.jsonl").open("a") as file:
        file.write('{"kind": "upd')  # a line that is being written
    seeds = run_directories.read(path, notes)
    assert notes == [f"{path}: is not finished"]
    assert len(seeds[0].metrics["mean_return"]) == 4


def test_evolutions_and_sweeps_are_one_seed_each(tmp_path: Path):
    evolution = write_records(
        tmp_path / "e",
        {"evolution": {"generations": 4}, "run": {"seed": 3}, "opponent": {"seed": 7}},
        "generation",
        [{"fitness_mean": 5.0, "fitness_of_mean": value} for value in (1.0, None)],
        {"learned": [1.0, None], "b": [2.0, 0.5]},
    )
    curve, *scored = run_directories.read(evolution, [])
    assert (curve.seed, curve.default) == ("3", "fitness_of_mean")
    assert set(curve.axes) == {"steps", "seconds", "generations"}
    # None counts as the worst of all.
    assert [(each.seed, each.metrics) for each in scored] == [
        ("3/0", {"evaluation:learned": 1.0}), ("3/1", {"evaluation:learned": 0.5}),
        ("3/0", {"evaluation:b": 2.0}), ("3/1", {"evaluation:b": 0.5}),
    ]  # fmt: skip
    assert scored[0].default == "evaluation:learned"

    config = {"sweep": {"trials": 4}, "run": {"seed": 1}}
    records = [{"value": value} for value in (2.0, 1.0, None, 3.0)]
    (seed,) = run_directories.read(write_records(tmp_path / "s", config, "trial", records), [])
    assert seed.default == "best_value"
    np.testing.assert_array_equal(seed.metrics["best_value"], [2, 2, 2, 3])


def names(given, notes=None) -> list[str]:
    """The names of the runs that are read, in order."""
    seeds = sources.read_all(list(map(str, given)), [] if notes is None else notes)
    return [Path(name).name for name in dict.fromkeys(seed.run for seed in seeds)]


def test_names_globs_and_folders_mix_and_a_run_counts_once(make_run, tmp_path: Path):
    for name in ("deep/one/a", "deep/one/b", "c"):
        make_run(name, rate=name)
    RunDirectory.create(tmp_path / "c" / "transfer", "x").write_config({}, {})  # inside a run
    assert names([tmp_path / "deep", f"{tmp_path}/*", tmp_path / "c"]) == ["a", "b", "c"]


def test_folders_may_have_brackets_in_their_names(make_run, tmp_path: Path, monkeypatch):
    for name in ("my runs [v2]/ppo_a", "my runs [v2]/ppo_b", "my runs [v2]/dqn", "my runs v"):
        make_run(name, rate=name)
    monkeypatch.chdir(tmp_path)
    for folder in (tmp_path, Path()):
        assert names([folder / "my runs [v2]" / "ppo*"]) == ["ppo_a", "ppo_b"]
    given = [f"{tmp_path}/my runs [v]", f"{tmp_path}/my runs [v2]/dq[mn]"]
    assert names(given) == ["my runs v", "dqn"]


def test_repeated_seeds_count_once(make_run):
    """The same settings and the same seed: of the two runs the longer one counts."""
    first, notes = make_run("a", points=5), []
    assert names([first, make_run("b", points=10), make_run("c", seed=1)], notes)[-2:] == ["b", "c"]
    seeds = sources.read_all([str(first), str(first.parent / "b")], [])
    assert {seed.run for seed in seeds if seed.axes} == {str(first.parent / "b")}
    assert any(f"{first}: left out" in note for note in notes)


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
    notes: list[str] = []
    seed, running, crashed = trackers.read("wandb:me/project", notes)
    assert notes == [f"wandb:me/project/{name}: is not finished" for name in ("r2", "r3")]
    assert (seed.seed, seed.default) == ("1", "charts/episodic_return")
    assert running.seed == "r2"
    assert "_wandb" not in seed.config
    np.testing.assert_array_equal(seed.axes["steps"], [0, 10, 20])
    np.testing.assert_array_equal(seed.axes["seconds"], [0, 2, 4])
    assert crashed.metrics == {}
    (one,) = trackers.read("wandb:me/project/r2", [])
    assert one.run == "wandb:me/project/r2"
    online()
    with pytest.raises(ConfigError, match="there is no wandb run"):
        trackers.read("wandb:me/project", [])


def test_a_server_that_does_not_answer_is_one_line(monkeypatch: pytest.MonkeyPatch):
    def refuse(timeout: int) -> Any:
        raise OSError("no\nroute")

    monkeypatch.setattr("wandb.Api", refuse)
    with pytest.raises(ConfigError, match="wandb cannot be read: no"):
        trackers.read("wandb:me/project", [])


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
    notes: list[str] = []
    (seed,) = sources.read_all([f"wandb:{tmp_path}"], notes)
    assert notes == []
    assert (seed.seed, seed.default) == ("5/mean", "mean_return")
    assert seed.settings == {"hyperparams.lr": "0.1"}
    np.testing.assert_array_equal(seed.axes["steps"], [10, 20, 30])  # of each of 4 agents
    np.testing.assert_array_equal(seed.metrics["mean_return"], [0, 2, 4])
    # A killed run lacks its end.
    (file,) = (file for file in tmp_path.rglob("*.wandb") if not file.parent.is_symlink())
    file.write_bytes(file.read_bytes()[:-200])
    trackers.read(f"wandb:{tmp_path}", notes)
    assert "is not finished" in notes[0]
    file.write_bytes(b"no log of wandb")
    with pytest.raises(ConfigError, match="cannot read it"):
        trackers.read(f"wandb:{tmp_path}", notes)


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
        notes: list[str] = []
        found = trackers.read(f"mlflow:{uri}#an experiment", notes)
        with pytest.raises(ConfigError, match=r"no experiment 'other'; there are: .*an exp"):
            trackers.read(f"mlflow:{uri}#other", notes)
    by_seed = {seed.seed: seed for seed in found}
    assert sorted(by_seed) == ["0", "1"]
    assert notes == ["mlflow:an experiment/parent/s0: is not finished"]
    seed = by_seed["1"]
    assert seed.run == "mlflow:an experiment/parent/s1"
    assert seed.config == {"lr": 0.1, "seed": 1}
    assert seed.default == "return"
    np.testing.assert_array_equal(seed.axes["steps"], [0, 10, 20])
    assert seed.axes["seconds"][0] < 60
    np.testing.assert_array_equal(seed.metrics["return"], [1, 2, 3])
    with pytest.raises(ConfigError, match="there is no database"):
        trackers.read(f"mlflow:sqlite:///{tmp_path}/missing.db#an experiment", notes)
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
    mean = trackers.tracked("mean", "x", {**config, "seeds": 2}, rows)
    agents = [
        trackers.tracked(str(agent), "x", {**config, "agent": agent, "seeds": 1}, rows)
        for agent in range(2)
    ]
    other = trackers.tracked("other", "x", {**config, "run": {"seed": 6}}, rows)
    assert [each.run for each in with_metric([mean, *agents, other], "mean_return")] == [
        "0", "1", "other",
    ]  # fmt: skip
    assert [each.seed for each in (*agents, other)] == ["5/0", "5/1", "6"]
    assert [each.settings for each in agents] == [{"hyperparams.lr": "0.1"}] * 2
    np.testing.assert_array_equal(agents[0].axes["steps"], [40, 40, 40])
    # `agent` is a setting like any other in somebody else's run
    assert trackers.tracked("f", "x", {"agent": "dqn"}, rows).settings == {"agent": "dqn"}
