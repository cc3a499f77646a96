"""A loss evolved for Q-learning, and judged on a task that its evolution has not seen."""

import json

import pytest

from metaevo.commands import evaluate as transfer
from metaevo.commands.evolve import main
from metaevo.comparison import evaluation
from metaevo.components.value_losses import SIDES
from metaevo.config import load_yaml

pytestmark = pytest.mark.long

TINY = """
learner: q_learning
task: {env: GridWorld, env_params: {size: 3, slip_probability: 0.1}}
train: {total_timesteps: 60, num_steps: 20}
component: {form: additive, hidden_sizes: [2], start: squared}
fitness: {mean_return: 0, reward_per_step: 10}
strategy: {population_size: 8, sigma: 0.1}
evolution: {generations: 2, validation_seeds: 4, num_devices: 1}
evaluation: {seeds: 8, sampler: grid, space: {learning_rate: [0.2, 0.5]},
             tuning_seeds: 2, ablation_seeds: 4}
"""


@pytest.fixture(scope="module")
def evolved(tmp_path_factory):
    """A finished run."""
    path = tmp_path_factory.mktemp("evaluate")
    (path / "tiny.yaml").write_text(TINY)
    argv = ["--config", str(path / "tiny.yaml"), "--run-dir", str(path / "run")]
    assert main(argv, component="value_loss", description="") == 0
    return path / "run"


def test_a_loss_for_q_learning_is_compared_and_taken_apart(evolved):
    result = json.loads((evolved / "evaluation.json").read_text())
    functions = {row["function"] for row in result["variants"]}
    assert functions == {
        "learned",
        "squared",
        "huber",
        "sloped_squared",
    }  # clipping makes no difference
    assert [row["loss"] for row in result["sides"]] == list(SIDES)
    assert {row["clipping"] for row in result["ablation"]} == {False}
    assert result["curves"] == "reward per step"
    assert (evolved / "report.html").is_file()


def test_a_quick_comparison_is_smaller(evolved, monkeypatch):
    monkeypatch.setitem(evaluation.QUICK, "seeds", 4)
    argv = ["--run-dir", evolved, "--task.env_params.size", "4", "--evaluation.ablation_seeds", "0"]
    argv += ["--comparison", "quick", "--name", "quick"]
    assert transfer.main([str(each) for each in argv], description="") == 0
    result = json.loads((evolved / "transfer" / "quick" / "evaluation.json").read_text())
    assert {row["seeds"] for row in result["variants"]} == {4}


def test_on_another_grid(evolved):
    argv = ["--run-dir", evolved, "--name", "wide", "--task.env_params.size", "[2,4]"]
    argv += ["--evaluation.ablation_seeds", "0", "--hyperparams.gamma", "0.9"]
    assert transfer.main([str(each) for each in argv], description="") == 0
    there = evolved / "transfer" / "wide"
    result = json.loads((there / "evaluation.json").read_text())
    assert len(result["variants"]) == 6
    assert {row["seeds"] for row in result["variants"]} == {8}
    settings = load_yaml(there / "config.yaml")["config"]
    assert settings["task"]["env_params"] == {"size": [2, 4], "slip_probability": 0.1}
    assert settings["hyperparams"]["gamma"] == 0.9
    assert (there / "report.html").is_file()


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("--task.env GridWorldz", "GridWorldz"),
        ("--task.env FrozenLake-misc --task.env_params.size 3", "size"),
        ("--task.env CartPole-v1", "CartPole-v1"),
        ("--task.env [GridWorld,Doors]", "task.env"),
        ("--strategy.sigma 0.5", "strategy.sigma"),
        ("--task.env_params.size 5 --evaluation.seeds 0", "evaluation.seeds"),
        ("--evaluation.seeds 9", "--task.env"),
        ("--name wide --task.env_params.size 4", "--name"),
        ("--config other.yaml", "--config"),
    ],
)
def test_what_cannot_be_judged(evolved, capsys, line, text):
    (evolved / ".." / "other.yaml").write_text("learner: q_learning\nevolve: value_loss\n")
    line = line.replace("other.yaml", str(evolved / ".." / "other.yaml"))
    with pytest.raises(SystemExit) as exit_info:
        transfer.main(["--run-dir", str(evolved), *line.split()], description="")
    complaint = capsys.readouterr().err
    assert exit_info.value.code == 2
    assert complaint.startswith("error: ")
    assert complaint.count("\n") == 1
    assert text in complaint
