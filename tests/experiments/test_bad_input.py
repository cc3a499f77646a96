"""Whatever a user gets wrong: one line on stderr, exit code 2, nothing compiled, no traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

from metaevo.commands.evolve import main
from metaevo.runs.run_directory import RunDirectory
from metaevo.studies import run as runner

ROOT = Path(__file__).parent.parent.parent

CASES = {
    # a command line, and the texts that its complaint must contain
    "unknown section": (
        "--evolutoin.generations 3",
        ["evolutoin", "did you mean --evolution.generations"],
    ),
    "misspelt key": (
        "--strategy.populaton_size 8",
        ["strategy.populaton_size", "did you mean 'population_size'"],
    ),
    "unknown flag": ("--resme", ["--resme"]),
    "misspelt flag": ("--generatoins 3", ["--generatoins", "--generations"]),
    "no value": ("--strategy.sigma", ["--strategy.sigma", "needs a value"]),
    "text for a number": ("--train.num_envs many", ["train.num_envs = 'many'", "integer"]),
    "fraction for an int": ("--train.num_envs 2.5", ["train.num_envs = 2.5", "integer"]),
    "number for a bool": ("--component.even 1", ["component.even = 1", "true or false"]),
    "value for a section": ("--strategy 3", ["strategy = 3"]),
    "out of range": ("--strategy.sigma -0.1", ["strategy.sigma = -0.1", "greater than 0"]),
    "not a number": ("--hyperparams.learning_rate .nan", ["hyperparams.learning_rate"]),
    "negative generations": ("--generations -1", ["evolution.generations = -1", "at least 0"]),
    "text for generations": ("--generations few", ["--generations", "few"]),
    "seed too large": ("--run.seed 4294967296", ["run.seed = 4294967296", "4294967295"]),
    "odd population": (
        "--strategy.population_size 7",
        ["strategy", "population_size = 7", "even"],
    ),
    "minibatches": (
        "--train.num_minibatches 3",
        ["train: num_envs x num_steps = 128", "num_minibatches = 3"],
    ),
    "too few steps": ("--train.total_timesteps 100", ["total_timesteps = 100", "128"]),
    "unknown environment": ("--task.env CartPoel-v1", ["'CartPoel-v1'", "CartPole-v1"]),
    "no environment": ("--task.env []", ["task.env"]),
    "unknown env param": ("--task.env_params.gravty 3", ["gravty", "gravity"]),
    "wrong env param": ("--task.env_params.gravity heavy", ["gravity", "heavy"]),
    "params of another env": (
        "--task.env [CartPole-v1,Acrobot-v1] --task.env_params.Pong.x 1",
        ["task.env_params", "Pong"],
    ),
    "unknown learner": ("--learner ppoo", ["learner = 'ppoo'", "ppo"]),
    "unknown component": ("--evolve drfit", ["evolve = 'drfit'", "value_loss"]),
    "unknown algorithm": ("--strategy.algorithm OpenES", ["'OpenES'", "Open_ES"]),
    "pickled algorithm": ("--strategy.algorithm LES", ["strategy.algorithm = 'LES'", "pickle"]),
    "gradients without derivatives": (
        "--learner dqn --strategy.algorithm meta_gradient",
        ["strategy.algorithm = 'meta_gradient': has no derivatives here: only PPO"],
    ),
    "a window that divides nothing": (
        "--strategy.algorithm meta_gradient --strategy.settings.window 3",
        ["has no derivatives here: the window of 3 updates must divide a training's"],
    ),
    "a formula with an unknown name": (
        "--evolve formula --component.expression eror --component.constants {}",
        ["component: expression = 'eror': unknown name 'eror'; known: "],
    ),
    "a formula that divides by zero": (
        "--evolve formula --component.expression 1/0 --component.constants {}",
        ["component: expression = '1/0': division by zero"],
    ),
    "a formula that is code": (
        "--evolve formula --component.expression ().__class__ --component.constants {}",
        ["component: expression = ", "is not allowed; a formula has numbers, names"],
    ),
    "algorithm setting": (
        "--strategy.settings.momentum 0.9",
        ["strategy.settings", "Open_ES", "momentum", "use_antithetic_sampling"],
    ),
    "type of an algorithm setting": ("--strategy.settings.x true.e", ["strategy.settings.x"]),
    "too many generations": (
        "--strategy.algorithm DiffusionEvolution --generations 500",
        ["evolution.generations = 500", "num_generations"],
    ),
    "no hyperparam": ("--evaluation.space.lerning_rate [1]", ["space", "lerning_rate", "allowed"]),
    "empty axis": ("--evaluation.space.vf_coef []", ["evaluation.space.vf_coef"]),
    "axis out of range": (
        "--evaluation.space.vf_coef [0.5,-1]",
        ["evaluation.space.vf_coef = -1", "at least 0"],
    ),
    "axis without a value": (
        "--evaluation.space.annealing_steps [100]",
        ["evaluation.space.annealing_steps", "hyperparams.annealing_steps"],
    ),
    "too many devices": ("--evolution.num_devices 99", ["evolution.num_devices = 99", "devices"]),
    "convex tanh": ("--component.convex true", ["component", "convex", "relu"]),
    "no weight": ("--fitness.mean_return 0", ["fitness", "weight"]),
    "unknown wandb mode": ("--wandb maybe", ["--wandb", "maybe", "offline"]),
    "no tracking URI": ("--mlflow mlruns", ["mlflow = 'mlruns'", "local", "sqlite:///FILE"]),
    "no tracking URI in a setting": ("--run.mlflow a", ["run: mlflow = 'a'", "no tracking URI"]),
    "vectors for a table": (
        "--learner q_learning --task.env CartPole-v1",
        ["task.env", "CartPole-v1", "no state index", "GridWorld"],
    ),
    "steps of a table": (
        "--learner q_learning --train.total_timesteps 10",
        ["total_timesteps = 10", "num_steps = 100"],
    ),
    "continuous actions for DQN": (
        "--learner dqn --task.env Pendulum-v1",
        ["task.env", "dqn", "Pendulum-v1", "discrete"],
    ),
    "replay smaller than a batch": (
        "--learner dqn --train.buffer_size 16",
        ["train", "buffer_size = 16", "batch_size = 32"],
    ),
    "learning starts too late": (
        "--learner dqn --train.learning_starts 20000",
        ["learning_starts = 20000", "total_timesteps = 10000"],
    ),
    "grid too small for its doors": (
        "--learner dqn --task.env Doors --task.env_params.size 4",
        ["task.env", "Doors", "size"],
    ),
    "slip more than certain": (
        "--learner dqn --task.env_params.slip_probability 2",
        ["GridWorld", "slip_probability = 2", "at most 1"],
    ),
    "episodes without a step": (
        "--task.env_params.max_steps_in_episode 0",
        ["max_steps_in_episode = 0", "at least 1"],
    ),
    "slot of another learner": (
        "--learner q_learning --evolve drift",
        ["q_learning", "policy_loss", "value_loss"],
    ),
    "missing file": ("--config missing.yaml", ["missing.yaml", "No such file"]),
    "resume without a directory": ("--resume", ["--resume", "--run-dir"]),
    "resume of nothing": ("--resume --run-dir missing", ["missing", "holds no run"]),
}


@pytest.fixture
def complain(capsys, monkeypatch):
    """Run a command line in this process; the complaint. Building the loop would be too late."""

    def too_late(*_, **__):
        raise AssertionError("got as far as building the run")

    monkeypatch.setattr(runner, "Evolution", too_late)

    def run(*argv):
        with pytest.raises(SystemExit) as exit_info:
            main([str(each) for each in argv], component="value_loss", description="")
        return check(exit_info.value.code, capsys.readouterr().err)

    return run


def check(code, stderr):
    assert code == 2, stderr
    assert stderr.startswith("error: ")
    assert stderr.count("\n") == 1, stderr
    return stderr


@pytest.mark.parametrize("case", CASES)
def test_the_complaint_names_key_and_value(complain, case, tmp_path, monkeypatch):
    line, texts = CASES[case]
    argv = line.split()
    if "--learner" not in argv:
        argv = ["--learner", "ppo", *argv]
    if "--run-dir" not in argv and "--resume" not in argv:
        argv += ["--run-dir", tmp_path / "run"]
    complaint = complain(*argv)
    for text in texts:
        assert text in complaint
    assert not (tmp_path / "run").exists()


BAD_YAML = {
    "no mapping": ("- 1\n", "mapping"),
    "broken": ("task: {env: [\n", "not valid YAML"),
    "duplicate key": ("run: {seed: 1}\nrun: {seed: 2}\n", "duplicate key 'run'"),
    "tag": ("run: !!python/object:os.system {}\n", "not supported"),
    "binary": (b"\xff\xfe\x00", "UTF-8"),
    "unknown key": ("strategy: {popsize: 3}\n", "strategy.popsize"),
}


@pytest.mark.parametrize("case", BAD_YAML)
def test_unreadable_yaml(complain, case, tmp_path):
    content, text = BAD_YAML[case]
    path = tmp_path / "bad.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    complaint = complain("--config", path, "--run-dir", tmp_path / "run")
    assert text in complaint


def test_unwritable_run_directory(complain, tmp_path):
    (tmp_path / "file").write_text("")
    assert "cannot be written" in complain("--run-dir", tmp_path / "file" / "run")
    assert "cannot be written" in complain("--run-dir", tmp_path / "file")
    if Path("/proc/version").exists():  # where not even root may write
        assert "cannot be written" in complain("--run-dir", "/proc/run")


def test_a_directory_that_holds_a_run(complain, tmp_path):
    (tmp_path / "config.yaml").write_text("config: {}\n")
    assert "already holds a run" in complain("--run-dir", tmp_path)


def test_a_directory_in_use(complain, tmp_path):
    other = RunDirectory(tmp_path)
    other.lock()
    assert "in use by another run" in complain("--run-dir", tmp_path)
    other.unlock()


@pytest.mark.parametrize("content", ["config: 3\n", "", "{{{"])
def test_resume_of_a_damaged_config(complain, tmp_path, content):
    (tmp_path / "config.yaml").write_text(content)
    assert "config.yaml" in complain("--resume", "--run-dir", tmp_path)


@pytest.fixture
def complain_about_dqn(complain, tmp_path):
    """The same, with settings that have nothing of PPO in them."""
    path = tmp_path / "dqn.yaml"
    path.write_text("learner: dqn\n")
    return lambda *argv: complain("--config", path, *argv, "--run-dir", tmp_path / "run")


def test_a_learner_that_cannot_act(complain_about_dqn):
    complaint = complain_about_dqn("--task.env", "Pendulum-v1")
    for text in ("task.env", "dqn", "Pendulum-v1", "DQN needs a discrete action space"):
        assert text in complaint


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("--train.train_interval 15", "train_interval = 15 must be a multiple of num_envs = 10"),
        ("--train.buffer_size 100", "buffer_size = 100"),
        ("--train.learning_starts 100", "learning_starts = 100 must be at least batch_size = 128"),
        ("--train.learning_starts 1000000", "learning_starts = 1000000 is beyond"),
        ("--hyperparams.tau 2", "hyperparams.tau = 2"),
    ],
)
def test_impossible_settings_of_dqn(complain_about_dqn, line, text):
    assert text in complain_about_dqn(*line.split())


@pytest.mark.parametrize(
    "line",
    [
        "--strategy.sigma nothing",
        "--task.env CartPole-v2",
        "--resume --run-dir /nowhere",
    ],
)
def test_as_a_real_process(line):
    command = [sys.executable, "experiments/evolve_value_loss.py", *line.split()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    check(done.returncode, done.stderr)
    assert done.stdout == ""
