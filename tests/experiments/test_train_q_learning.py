"""Tabular agents through experiments/train.py: their map, their film, their play in Gymnasium."""

import json

import pytest

from metaevo.commands import train as training
from metaevo.training.report import FILM, VALUE_MAP

SETTINGS = (
    "--learner q_learning --seeds 2 --task.env GridWorld --task.env_params.size 3 "
    "--task.env_params.max_steps_in_episode 9 --train.total_timesteps 2000 --train.num_steps 100 "
    "--hyperparams.epsilon_start 0.5 --run.num_devices 1 --evaluation.episodes 2"
)


def train(line, path):
    """Train; return the rows of its evaluation."""
    assert training.main([*line.split(), "--run-dir", str(path)]) == 0
    return json.loads((path / "evaluation.json").read_text())["variants"]


@pytest.mark.long
def test_a_table_is_drawn_and_filmed(tmp_path):
    path = tmp_path / "run"
    rows = train(SETTINGS + " --evaluation.film true", path)
    assert (path / "figures" / VALUE_MAP).read_bytes()[:4] == b"\x89PNG"
    assert (path / "figures" / FILM).read_bytes()[:4] == b"GIF8"
    assert [(row["name"], row["mean"]) for row in rows[2:]] == [("greedy policy", 1.0)]
    assert (path / "report.html").is_file()


@pytest.mark.long
def test_an_agent_of_state_numbers_plays_in_gymnasium(tmp_path):
    line = SETTINGS.replace("GridWorld --task.env_params.size 3", "FrozenLake-misc")
    rows = train(line + " --evaluation.gymnasium 1", tmp_path / "run")
    assert rows[-1]["name"] == "greedy policy in Gymnasium"
    assert [row["seeds"] for row in rows] == [2, 2, 2, 1]
