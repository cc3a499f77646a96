"""What else experiments/sweep.py can be asked for, and every way to ask for it wrongly."""

import pytest

from metaevo.commands.sweep import main
from metaevo.tasks.population import Population
from metaevo.tuning import figures

TINY = """
learner: q_learning
task: {env: GridWorld, env_params: {size: 4, max_steps_in_episode: 20}}
train: {total_timesteps: 900, num_steps: 100}
fitness: {mean_return: 0.0, reward_per_step: 1.0}
space:
  hyperparams.learning_rate: {log_uniform: [0.01, 0.9]}
sweep: {trials: 6, sampler: random, batch: 2, seeds: 2, confirm_seeds: 0}
run: {num_devices: 1}
"""


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "draw", lambda study, directory: [])
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY)
    return path


def sweep(*argv):
    return main([str(each) for each in argv], description=None)


# --- Bad input ------------------------------------------------------------------------------------

BAD = {
    "halving with CMA-ES": (
        "--dry-run --sweep.sampler cma_es --sweep.scheduler successive_halving",
        ["sweep: sampler = 'cma_es'", "'successive_halving'", "tpe", "none"],
    ),
    "halving of an evolution": (
        "--evolve value_loss --sweep.scheduler hyperband "
        "--space {strategy.sigma:{uniform:[0.1,0.3]}}",
        ["sweep.scheduler = 'hyperband'", "none"],
    ),
    "evolution without judges": (
        "--evolve value_loss --evolution.validation_seeds 0 "
        "--space {strategy.sigma:{uniform:[0.1,0.3]}}",
        ["evolution.validation_seeds = 0"],
    ),
    "evolution on no tasks": (
        "--evolve value_loss --tasks {} --space {strategy.sigma:{uniform:[0.1,0.3]}}",
        ["tasks"],
    ),
    "learner without this environment": ("--task.env CartPole-v1 --task.env_params {}", ["index"]),
}


@pytest.fixture
def error_of(refused, monkeypatch):
    """Run a sweep; the line with which it is refused, before any agent is trained."""

    def run(*argv):
        with monkeypatch.context() as patch:
            patch.setattr(Population, "init", None)
            return refused(sweep, *argv)

    return run


@pytest.mark.parametrize(("line", "texts"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line(line, texts, config, tmp_path, monkeypatch, error_of):
    monkeypatch.chdir(tmp_path)
    error = error_of("--config", config, *line.split())
    assert all(text in error for text in texts)


@pytest.fixture
def begun(config, tmp_path, killed_at):
    with killed_at(Population, "init", 2):
        sweep("--config", config, "--run-dir", tmp_path / "begun")
    return tmp_path / "begun"


def test_a_resumed_sweep_refuses_changes_and_damage(begun, error_of):
    def refused(*argv):
        return error_of("--resume", "--run-dir", begun, *argv)

    space = "{hyperparams.learning_rate: {log_uniform: [0.1, 0.9]}}"
    assert "cannot resume with other settings" in refused("--space", space)
    assert "sweep.trials: 6 -> 8" in refused("--sweep.trials", "8")
    assert "sweep.sampler" in refused("--sweep.sampler", "sobol")
    metrics = (begun / "metrics.jsonl").read_text()
    journal = begun / "study.journal"
    kept = journal.read_text()
    journal.write_text("nonsense\n" + kept)
    assert "is not the journal of a study" in refused()
    journal.unlink()
    assert "the study has no trial 0" in refused()
    journal.write_text(kept)
    (begun / "metrics.jsonl").write_text("nonsense\n" + metrics)
    assert "metrics.jsonl, line 1" in refused()
    (begun / "metrics.jsonl").write_text(metrics)
    (begun / "config.yaml").write_text("config: 3\n")
    assert "config.yaml" in refused()


# --- Plans ----------------------------------------------------------------------------------------


def test_a_dry_run_neither_compiles_nor_writes(config, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Population, "init", None)
    space = "{hyperparams.gamma: {uniform: [0.9, 0.99]}, train.num_steps: {choice: [50, 100]}}"
    line = "--dry-run --sweep.confirm_seeds 3 --sweep.seeds 5"
    assert sweep("--config", config, *line.split(), "--space", space) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "trials 6 x 5 seeds, random" in words
    assert "compilations, at most 2" in words
    assert "frames of the search, at most 27,000 frames of the confirmation 5,400" in words
    assert "memory of a chunk" in words
    assert [each.name for each in tmp_path.iterdir()] == ["tiny.yaml"]
