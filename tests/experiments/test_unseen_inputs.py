"""experiments/benchmarks/unseen_inputs.py on an optimizer that has hardly evolved."""

import pytest

from experiments.benchmarks.unseen_inputs import main
from metaevo.commands.evolve import main as evolve

pytestmark = [pytest.mark.long, pytest.mark.slow]

TINY = """
evolve: optimizer
learner: ppo
task: {env: GridWorld, env_params: {size: 3}}
train: {total_timesteps: 64, num_envs: 2, num_steps: 8, update_epochs: 1, num_minibatches: 1,
        hidden_sizes: [4]}
component: {hidden_size: 2}
strategy: {population_size: 4}
evolution: {generations: 0, validation_seeds: 0, num_devices: 1}
evaluation: {seeds: 0}
"""


def test_a_rule_that_is_adam_scores_as_adam(tmp_path, capsys):
    """It begins at Adam, to which no input matters."""
    (tmp_path / "tiny.yaml").write_text(TINY)
    argv = ["--config", str(tmp_path / "tiny.yaml"), "--run-dir", str(tmp_path / "run")]
    assert evolve(argv, description="") == 0
    (tmp_path / "tasks.yaml").write_text("wide: {env: GridWorld, env_params: {size: 4}}\n")
    capsys.readouterr()
    main([str(tmp_path / "run"), str(tmp_path / "tasks.yaml"), "--seeds", "4"])
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()]
    assert [row[:2] for row in rows] == [
        ["wide", "Adam"], ["wide", "the rule"], ["wide", "without size"]
    ]  # fmt: skip
    assert len({row[2] for row in rows}) == 1
