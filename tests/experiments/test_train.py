import json
import socket

import numpy as np
import pytest

from metaevo.commands import train as training
from metaevo.training.report import FILM, VALUE_MAP
from tests.faults.works import records as read_records
from tests.metaevo.runs.test_trackers import read_mlflow

pytestmark = pytest.mark.long

TINY = {
    "seeds": 3, "train.num_envs": 2, "train.num_steps": 8, "train.update_epochs": 1,
    "train.num_minibatches": 1, "train.hidden_sizes": "[4]", "train.total_timesteps": 16 * 25,
    "hyperparams.learning_rate": 1e-2, "run.num_devices": 2, "run.log_every": 10,
    "run.block_seconds": 1e-9, "run.checkpoint_seconds": 0, "evaluation.episodes": 2,
    "evaluation.gymnasium": 1, "fitness.evaluation_return": 1, "fitness.evaluations": 2,
    "fitness.evaluation_episodes": 2,
}  # fmt: skip


def arguments(**changes):
    settings = TINY | {key.replace("__", "."): value for key, value in changes.items()}
    return [word for key, value in settings.items() for word in (f"--{key}", str(value).lower())]


def train(*argv, **changes):
    return training.main([*argv, *arguments(**changes)])


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "finished"
    assert train("--run-dir", str(path)) == 0
    return path


@pytest.mark.smoke
def test_a_run_writes_all_files(finished, capsys):
    records = read_records(finished, "update")
    assert [record["update"] for record in records] == [9, 19, 24]
    evaluated = 3 * 2 * 500  # agents, episodes, time limit
    frames = [480, 960 + evaluated, 1200 + 2 * evaluated]
    assert [record["frames"] for record in records] == frames
    assert all(record["diverged"] == 0 and record["value_loss"] > 0 for record in records)
    assert all(r["low"] <= r["mean_return"] <= r["high"] for r in records if r["episodes"])
    lines = (finished / "learning_curves.csv").read_text().splitlines()
    agents = "seed_0,seed_1,seed_2,evaluation_0,evaluation_1,evaluation_2"
    assert lines[0] == f"steps,{agents}"
    assert [line.split(",")[0] for line in lines[1:]] == ["160", "320", "400"]
    returns = [[float(cell or "nan") for cell in line.split(",")[1:]] for line in lines[1:]]
    none = [None] * 3  # becomes nan
    logged = [record["returns"] + record.get("evaluation_returns", none) for record in records]
    np.testing.assert_allclose(np.array(logged, dtype=float), returns, rtol=1e-5)
    assert ["evaluation_return" in record for record in records] == [False, True, True]
    assert records[-1]["evaluation_return"] == pytest.approx(np.mean(returns[-1][3:]))
    result = json.loads((finished / "evaluation.json").read_text())
    assert [(row["name"], row["seeds"]) for row in result["variants"]] == [
        ("end of training", 3), ("whole training (fitness)", 3),
        ("evaluation of the greedy policy", 3), ("greedy policy", 3),
        ("greedy policy in Gymnasium", 1),
    ]  # fmt: skip
    assert (finished / "report.html").is_file()
    assert (finished / "figures" / "learning_curves.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.filterwarnings("ignore:.*noload")  # of SQLAlchemy in MLflow
def test_a_tracker_that_never_answers_changes_nothing(finished, tmp_path, monkeypatch, capfd):
    path, uri = tmp_path / "run", f"sqlite:///{tmp_path}/store.db"
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    with socket.create_server(("127.0.0.1", 0), backlog=100) as silence:
        monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{silence.getsockname()[1]}")
        tracking = ["--run-dir", str(path), "--wandb", "online", "--mlflow", uri]
        play = {f"evaluation__{key}": 0 for key in ("episodes", "gymnasium")}
        assert train(*tracking, **play, evaluation__film="false") == 0
    assert read_records(path, "update") == read_records(finished, "update")
    assert capfd.readouterr().err.count("warning: wandb (online)") == 1
    _, artifacts, _ = read_mlflow(uri)
    assert artifacts == ["evaluation.json", "figures", "learning_curves.csv", "report.html"]


def test_a_table_is_drawn_and_filmed(tmp_path):
    path = tmp_path / "run"
    line = (
        "--learner q_learning --seeds 2 --task.env GridWorld --task.env_params.size 3 "
        "--train.total_timesteps 2000 --train.num_steps 100 --hyperparams.epsilon_start 0.5 "
        "--run.num_devices 1 --evaluation.episodes 2 --evaluation.film true"
    )
    assert training.main([*line.split(), "--run-dir", str(path)]) == 0
    rows = json.loads((path / "evaluation.json").read_text())["variants"]
    assert (path / "figures" / VALUE_MAP).read_bytes()[:4] == b"\x89PNG"
    assert (path / "figures" / FILM).read_bytes()[:4] == b"GIF8"
    assert [(row["name"], row["mean"]) for row in rows[2:]] == [("greedy policy", 1.0)]
