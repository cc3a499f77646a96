"""`metaevo distill` from end to end, and invalid input."""

import json
import shutil
import sys

import jax
import numpy as np
import pytest

from metaevo.commands.distill import main
from metaevo.commands.train import main as train
from metaevo.components import seen
from metaevo.components.discovery import load
from metaevo.components.parts import Evolved
from metaevo.config import ConfigError, dump_yaml
from metaevo.discovery import distill, networks
from tests.metaevo.discovery.test_networks import part_of
from tests.metaevo.evolving import evolve

TINY = """
evolve: value_loss
learner: q_learning
task: {env: GridWorld, env_params: {size: 3, slip_probability: 0.1}}
train: {total_timesteps: 60, num_steps: 20}
component: {form: additive, hidden_sizes: [3], start: random}
fitness: {mean_return: 0, reward_per_step: 10}
strategy: {population_size: 8, sigma: 0.1}
evolution: {generations: 1, validation_seeds: 4, num_devices: 1}
evaluation: {seeds: 0, sampler: grid, space: {learning_rate: [0.2, 0.5]},
             tuning_seeds: 2}
"""

TINY_PPO = """
learner: ppo
evolve: optimizer
train: {total_timesteps: 512, num_envs: 2, num_steps: 32, num_minibatches: 1, hidden_sizes: [4]}
hyperparams: {learning_rate: 0.01}
component: {hidden_size: 3}
strategy: {population_size: 4, sigma: 0.02}
evolution: {generations: 1, validation_seeds: 0, num_devices: 1}
evaluation: {seeds: 0, space: {}}
"""


def refused(capsys, *argv):
    """The one line with which the command refuses its arguments."""
    with pytest.raises(SystemExit) as caught:
        main([str(each) for each in argv], description="")
    assert caught.value.code == 2
    (line,) = [x for x in capsys.readouterr().err.splitlines() if not x.startswith("results")]
    assert line.startswith("error: ")
    return line


def test_other_directories_are_refused(tmp_path, capsys):
    trained = {"config": {"learner": "ppo"}, "resolved": {}, "environment": {}}
    (tmp_path / "config.yaml").write_text(dump_yaml(trained))
    for argv in ([], [tmp_path / "nothing"], [tmp_path]):
        refused(capsys, *argv)


def test_parts_that_can_be_distilled(tmp_path):
    def chosen(slot, *parts):
        return distill._part(tmp_path, Evolved({each.name: each for each in parts}, True), slot)

    both = [part_of(name) for name in ("value_loss", "drift", "lpg")]
    assert chosen("policy_loss", *both).name == "drift"
    assert chosen(None, part_of("schedule"))
    assert chosen(None, part_of("optimizer"))
    other = part_of("optimizer", memory_size=2), part_of("open"), part_of("lpg")
    for slot, parts in [(None, both), ("schedule", both), *((None, [each]) for each in other)]:
        with pytest.raises(ConfigError):
            chosen(slot, *parts)


@pytest.fixture(scope="module")
def evolved(tmp_path_factory):
    return evolve(tmp_path_factory.mktemp("distill"), TINY)


@pytest.mark.long
def test_a_loss_becomes_formulas(evolved, tmp_path):
    pytest.importorskip("pyoperon")
    argv = [str(evolved), "--evaluations", "3000", "--formulas", "2", "--evaluation.seeds", "8"]
    assert main(argv, description="") == 0
    found = json.loads((evolved / "distill/value_loss/distilled.json").read_text())
    assert found["inputs"] == ["error"]
    assert 1 <= len(found["formulas"]) <= 2
    lengths = [each["length"] for each in found["formulas"]]
    assert lengths == sorted(lengths)
    for each in found["formulas"]:
        assert len(each["scores"]) == 8
        value_loss, meta_params = load(
            evolved / "distill/value_loss" / each["name"].replace(" ", "_")
        )
        assert set(meta_params["relative"]) == set(each["constants"])
        assert np.isfinite(value_loss(meta_params, None, 0.5, 0.25, 0.5))
    assert {each["name"] for each in found["hand_written"]} == {
        "squared",
        "huber",
        "sloped_squared",
    }
    assert found["learned"]["numbers"] == 10
    page = (evolved / "distill/value_loss/report.html").read_text(encoding="utf-8")
    assert "<summary></summary>" not in page

    name = found["formulas"][-1]["name"].replace(" ", "_")
    argv = ["--learner", "q_learning", "--task.env", "GridWorld"]
    argv += ["--train.total_timesteps", "2000", "--train.num_steps", "100"]
    argv += ["--value_loss", str(evolved / "distill/value_loss" / name)]
    assert train([*argv, "--run-dir", str(tmp_path / "trained")], description="") == 0


@pytest.mark.long
def test_a_rule_of_several_tasks_becomes_a_smaller_network(tmp_path, monkeypatch):
    monkeypatch.setattr(networks, "STEPS", 300)
    monkeypatch.setattr(networks, "STARTS", 1)
    monkeypatch.setitem(sys.modules, "pyoperon", None)  # which no network needs
    tasks = """
tasks:
  near: {env: GridWorld, env_params: {size: 2}}
  far: {env: GridWorld, train: {total_timesteps: 200}, sample: {updates: {integer: [2, 10]}}}
"""
    settings = "\n".join(line for line in TINY.splitlines() if not line.startswith("task:"))
    run = evolve(tmp_path, settings + tasks)
    argv = [str(run), "--into", "network", "--name", "small", "--evaluation.seeds", "4"]
    assert main(argv, description="") == 0
    found = json.loads((run / "distill/small/distilled.json").read_text())
    assert (found["into"], set(found["tasks"])) == (["network"], {"near", "far"})
    for result in found["tasks"].values():
        (network,) = result["networks"]  # with 4 units it would not be smaller
        assert (network["name"], network["numbers"]) == ("network of 2", 7)
        assert len(network["scores"]) == len(result["learned"]["scores"]) == 4
        assert result["learned"]["numbers"] == 10
        assert {each["name"] for each in result["hand_written"]} >= {"squared", "huber"}
    folder = run / "distill/small/network_of_2"
    assert [each.name for each in seen.by_rule(folder)] == ["near", "far"]
    value_loss, meta_params = load(folder)
    assert sum(np.size(leaf) for leaf in jax.tree.leaves(meta_params)) == 7
    assert np.isfinite(value_loss(meta_params, None, 0.5, 0.25, 0.5))


@pytest.mark.long
def test_an_optimizer_becomes_a_formula(tmp_path):
    pytest.importorskip("pyoperon")
    run = evolve(tmp_path, TINY_PPO)
    argv = [str(run), "--evaluations", "3000", "--formulas", "1", "--evaluation.seeds", "0"]
    assert main(argv, description="") == 0
    found = json.loads((run / "distill/make_optimizer/distilled.json").read_text())
    best = found["front"][-1]
    assert best["error"] < 0.1  # evolution has begun at Adam
    assert "mean_9" in best["expression"]
    folder = run / "distill/make_optimizer" / f"formula_of_{best['length']}"
    load(folder, slot="make_optimizer", learner="dqn")


@pytest.mark.long
def test_invalid_options_are_refused(evolved, capsys):
    pytest.importorskip("pyoperon")
    for flag, value in {
        "--slot": "policy_loss", "--component.hidden_sizes": "[5]", "--formulas": 0, "--into": "net"
    }.items():  # fmt: skip
        assert flag.removeprefix("--") in refused(capsys, evolved, flag, value)
    shutil.rmtree(evolved / "meta_params")
    assert "holds no discovered component" in refused(capsys, evolved)
