from pathlib import Path

import pytest

from metaevo.commands import run_options
from metaevo.config import ConfigError, find_preset, load_yaml
from tests.metaevo.config.test_config import Config

CONFIGS = Path(__file__).parents[3] / "configs"


@pytest.fixture(autouse=True)
def own_settings(monkeypatch):
    monkeypatch.setattr(run_options, "settings_class", lambda *_: Config)


def command_line(*argv):
    parser = run_options.Parser("train")
    parser.add_argument("--run-dir", type=Path, help="where the run goes")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--generations", type=int)
    return run_options.parse_settings(parser, argv, lambda *_: {"learner": "own"})


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("env: {size: 3, slip: 0.1}\ntrain: {every: 1, num_envs: 16}\n")
    return str(path)


def test_own_flags_and_settings_mix():
    config, args = command_line(
        "--learner=dqn", "--train.hidden_sizes", "16", "8", "--run-dir", "x", "--hyperparams.gamma",
        "0.5", "--hyperparams.offset", "-1e-3", "--env.size", "null", "--train.anneal", "true",
        "--env.nested.deep", "a=b", "--train.every", "5e3", "--train.every", "-1",
    )  # fmt: skip
    assert args.run_dir == Path("x")
    assert (config.learner, config.train.hidden_sizes) == ("dqn", (16, 8))
    assert (config.train.anneal, config.train.every) == (True, -1)
    assert (config.hyperparams.offset, config.hyperparams.gamma) == (-0.001, 0.5)
    assert config.env == {"size": None, "nested": {"deep": "a=b"}}
    assert command_line("--train.hidden_sizes=[4, 5]")[0].train.hidden_sizes == (4, 5)


def test_settings_override_the_file_which_replaces_the_defaults(file):
    config = command_line("--train.every", "2", "--env.size", "4", "--config", file)[0]
    assert (config.learner, config.train.every, config.train.num_envs) == ("ppo", 2, 16)
    assert config.env == {"size": 4, "slip": 0.1}
    assert command_line("--env", "{size: 4}", "--config", file)[0].env == {"size": 4}
    assert command_line()[0].learner == "own"


def test_presets_are_found_by_name_from_anywhere_after_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "train/ppo_cartpole"
    for text in (name, f"{name}.yaml", f"configs/{name}.yaml"):
        assert load_yaml(find_preset(text)) == load_yaml(CONFIGS / f"{name}.yaml")
    (tmp_path / "train").mkdir()
    (tmp_path / name).write_text("seeds: 3")
    assert load_yaml(find_preset(name)) == {"seeds": 3}


def test_help_lists_all_settings_with_their_documentation_and_defaults(capsys, file):
    with pytest.raises(SystemExit):
        command_line("-h", "all", "--config", file)
    text = " ".join(capsys.readouterr().out.split())
    assert "--run-dir RUN_DIR where the run goes" in text
    assert "--train.num_envs integer >= 1 (default: 16)" in text
    assert "--hyperparams.gamma number >= 0 and <= 1 (default: 0.99)" in text
    assert "--train.every integer Updates between two points; 100% documented." in text


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["stray"], "'stray'"),
        (["train/ppo_cartpole"], "--config FILE"),
        (["--quik", "1"], "--quik (did you mean --quick?)"),
        (["--config", "none.yaml"], "none.yaml"),
        (["--config", "train/ppo_cartpol"], "(did you mean train/ppo_cartpole?)"),
    ],
)
def test_a_bad_command_line_is_refused_in_one_line(argv, words):
    with pytest.raises(ConfigError) as caught:
        command_line(*argv)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
