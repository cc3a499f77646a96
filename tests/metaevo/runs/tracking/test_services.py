"""Real wandb, offline, and real MLflow, in sqlite: what they say they have of a run."""

import shutil

import pytest

from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.tracking.service import about_child, about_run
from metaevo.runs.tracking.state import STATE_FILE, load_state
from tests.metaevo.runs.tracking.runs import (
    RUN_ID,
    finish_run,
    log_generations,
    make_run,
    read_mlflow,
    read_wandb,
    rows_of,
    sync,
)

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def sent(tmp_path_factory):
    """A run sent in two parts, stopped and finished, to both services at once; and the database."""
    place = tmp_path_factory.mktemp("place")
    run, uri = make_run(place / "run", 2), f"sqlite:///{place}/store.db"
    (place / ".store.db.new").write_bytes(b"left by a process that was killed creating it")
    to = (place / "r*n", "--wandb", "offline", "--mlflow", uri)
    assert "sent 2 records" in sync(*to)
    log_generations(run, [2])
    finish_run(run)
    said = sync(*to).splitlines()
    assert [line.partition("sent ")[2] for line in said] == [
        "3 records, 2 nested runs and 2 artifacts"
    ] * 2
    return run, uri


def test_wandb_has_every_row_once_and_its_groups(sent):
    run, _ = sent
    first, second, *children = read_wandb(run)
    generations = [
        {
            "generation/index": n,
            "generation/frames": 8 * n,
            "generation/fitness_mean": n * 1.5,
            "generation/seconds": n / 2,
        }
        for n in range(3)
    ]
    assert rows_of(first) == generations[:2]
    assert rows_of(second)[:1] == generations[2:]
    assert [row["evaluation/iqm"] for row in rows_of(second)[1:]] == [3.0, 2.0]
    # Where `wandb sync` puts the second part after the first.
    assert [each["item"]["_step"] for each in second["history"]] == [2, 3, 4]
    heads = [each["run"][0] for each in (first, second, *children)]
    assert [head["run_id"] for head in heads] == [RUN_ID, RUN_ID] + [
        f"{RUN_ID}-trial_{n}" for n in range(2)
    ]
    assert {head["run_group"] for head in heads} == {"run"}
    assert [head["job_type"] for head in heads] == ["evolution"] * 2 + ["trial"] * 2
    assert [head["display_name"] for head in heads[2:]] == ["run/trial_0", "run/trial_1"]
    assert {head["project"] for head in heads} == {"p"}
    config = heads[0]["config"]["update"]
    assert config["a"] == {"b": 1}
    assert config["environment"]["devices"] == ["a device"]
    assert {"git", "command_line", "jax"} <= set(config["environment"])
    assert [row["update/mean_return"] for row in rows_of(children[1])] == [0.2, 1.2]
    assert len(second["artifact"]) == 2
    axes = [each.get("step_metric") for each in first["metric"]]
    assert axes == [None, "generation/index"]


@pytest.fixture(scope="module")
def in_mlflow(sent):
    return read_mlflow(sent[1])


def test_mlflow_has_every_value_once_and_nested_runs(sent, in_mlflow):
    run, runs = sent[0], in_mlflow
    assert set(runs) == {"run", "run/trial_0", "run/trial_1"}
    root = runs["run"]
    assert root["metrics"]["generation/fitness_mean"] == [[0, 0.0], [1, 1.5], [2, 3.0]]
    assert root["metrics"]["evaluation/iqm"] == [[0, 3.0], [1, 2.0]]
    assert "generation/flag" not in root["metrics"]
    assert (root["status"], root["experiment"]) == ("FINISHED", "p")
    assert root["params"]["a.b"] == "1"
    assert root["params"]["environment.devices"] == "['a device']"
    assert root["tags"]["job_type"] == "evolution"
    assert root["artifacts"] == ["figures", "report.html"]
    assert any((run.path.parent / "store_artifacts").rglob("figures/fitness.png"))
    child = runs["run/trial_1"]
    assert child["tags"]["mlflow.parentRunId"] == root["id"]
    assert (child["tags"]["group"], child["tags"]["job_type"]) == ("run", "trial")
    assert child["params"]["rate"] == "0.2"
    assert child["metrics"]["update/mean_return"] == [[0, 0.2], [1, 1.2]]
    assert child["status"] == "FINISHED"


def test_a_second_sync_sends_nothing(sent):
    run, uri = sent
    parts = len(list((run.path / "wandb").glob("offline-run-*")))
    state = (run.path / STATE_FILE).read_bytes()
    said = sync(run.path, "--wandb", "offline", "--mlflow", uri).splitlines()
    assert [line.rpartition(": ")[2] for line in said] == ["nothing new"] * 2
    assert len(list((run.path / "wandb").glob("offline-run-*"))) == parts
    assert (run.path / STATE_FILE).read_bytes() == state


def test_a_forgotten_state_makes_no_second_run_in_mlflow(sent, in_mlflow, tmp_path):
    (run, uri), before = sent, in_mlflow
    copy = shutil.copytree(run.path, tmp_path / "run")
    (copy / STATE_FILE).unlink()
    assert "sent 5 records" in sync(copy, "--mlflow", uri)
    after = read_mlflow(uri)
    assert {name: one["metrics"] for name, one in after.items()} == {
        name: one["metrics"] for name, one in before.items()
    }
    assert {one["id"] for one in after.values()} == {one["id"] for one in before.values()}


def test_what_a_killed_mirror_left_offline_is_written_again(tmp_path):
    """Wandb cannot go on with an offline run whose last rows are lost."""
    run = make_run(tmp_path / "run", 2)
    fragment = run.path / "wandb" / f"offline-run-20260101_000000-{RUN_ID}"
    other = run.path / "wandb" / "offline-run-20260101_000000-another"
    for path in (fragment, other):
        path.mkdir(parents=True)
    sync(run.path, "--wandb", "offline")
    assert not fragment.exists()
    assert other.exists()
    (entries,) = read_wandb(run)
    assert [row["generation/index"] for row in rows_of(entries)] == [0, 1]
    assert len(load_state(run.path, "wandb:offline#p").segments) == 1


def test_what_cannot_be_sent_is_said_in_a_line_each(tmp_path):
    run = make_run(tmp_path / "run")
    said = sync(run.path, "--wandb", "--mlflow", f"sqlite:///{run.config_path}/store.db", code=1)
    errors = [line for line in said.splitlines() if line.startswith("error: ")]
    assert [line.partition("-> ")[2].split()[0] for line in errors] == ["wandb", "mlflow"]
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["missing"], "holds no run"),
        (["missing*"], "matches no run"),
        (["run"], "name no tracker; say where"),
        (["run", "--mlflow", "nowhere"], "is no tracking URI"),
        (["run", "--wandb", "maybe"], "--wandb"),
        ([], "RUN"),
    ],
)
def test_bad_input(tmp_path, monkeypatch, capsys, arguments, text):
    from metaevo.commands.sync import main

    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "run")
    with pytest.raises(SystemExit) as exit_info:
        main(arguments, description=None)
    assert exit_info.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert text in line


def test_a_nested_run_is_told_all_settings(tmp_path):
    run = RunDirectory.create(tmp_path / "run", "sweep")
    run.write_config({"hyperparams": {"a": 1, "b": 2}, "seeds": 4}, {"run_id": "0123abcd"})
    parent = about_run(run, "project", "fallback")
    child = about_child(parent, "trial_0003", "trial", {"hyperparams.a": 7, "seeds": 1})
    assert child.config["hyperparams"] == {"a": 7, "b": 2}
    assert child.config["seeds"] == 1
    assert child.config["resolved"] == {"run_id": "0123abcd"}
    assert parent.config["hyperparams"] == {"a": 1, "b": 2}
