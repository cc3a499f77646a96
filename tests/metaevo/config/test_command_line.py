"""Command lines: flags, files, presets, settings and mistakes."""

from pathlib import Path
from typing import Any

import pytest

from metaevo.config import ConfigError, load_yaml, presets
from metaevo.config.command_line import Parser, parse_command_line
from tests.metaevo.example_config import Config

CONFIGS = Path(__file__).parents[3] / "configs"


def command_line(*argv, config=None, quick=None):
    """The settings, the flags, and what the class was chosen by."""
    parser = Parser("train")
    parser.add_argument("--run-dir", type=Path, help="where the run goes")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--generations", type=int)
    seen: dict[str, Any] = {}

    def make_class(raw):
        seen.update(raw)
        return Config

    of_file = () if config is None else ("--config", str(config))
    found, args = parse_command_line(
        parser, [*argv, *of_file], make_class, lambda *_: {"learner": "own"}, quick
    )
    return found, args, seen


def test_own_flags_and_settings_mix():
    config, args, raw = command_line(
        "--learner=dqn", "--train.hidden_sizes", "16", "8", "--run-dir", "x", "--resume",
        "--hyperparams.offset", "-1e-3", "--hyperparams.gamma", "0.5", "--env.size", "null",
        "--train.anneal", "true", "--env.nested.deep", "a=b", "--train.every", "5e3",
        "--train.every", "-1",
    )  # fmt: skip
    assert (args.run_dir, args.resume) == (Path("x"), True)
    assert (config.learner, config.train.hidden_sizes) == ("dqn", (16, 8))
    assert command_line("--train.hidden_sizes=[4, 5]")[0].train.hidden_sizes == (4, 5)
    assert (config.train.anneal, config.train.every) == (True, -1)
    assert (config.hyperparams.offset, config.hyperparams.gamma) == (-0.001, 0.5)
    assert config.env == {"size": None, "nested": {"deep": "a=b"}}
    assert raw["learner"] == "dqn"


def test_a_mapping_given_as_a_whole_replaces_the_files(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("env: {size: 3, slip: 0.1}\ntrain: {every: 7, num_envs: 8}\n")
    config, *_ = command_line("--env", "{size: 4}", "--train", "{every: 9}", config=path)
    assert (config.env, config.train.num_envs) == ({"size": 4}, 8)  # a section is merged
    assert command_line("--env.size", "4", config=path)[0].env == {"size": 4, "slip": 0.1}


def test_settings_override_the_file_which_replaces_the_defaults(tmp_path):
    (tmp_path / "a.yaml").write_text("train: {every: 1, num_envs: 16}\n")
    config = command_line("--train.every", "2", config=tmp_path / "a.yaml")[0]
    assert (config.learner, config.train.every, config.train.num_envs) == ("ppo", 2, 16)
    assert command_line()[0].learner == "own"


def test_presets_are_found_by_name_from_anywhere_after_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert {str(CONFIGS / f"{name}.yaml") for name in presets.names()} == {
        str(path) for path in CONFIGS.rglob("*.yaml")
    }
    name = "train/ppo_cartpole"
    for text in (name, f"{name}.yaml", f"configs/{name}.yaml"):
        assert load_yaml(presets.find(text)) == load_yaml(CONFIGS / f"{name}.yaml")
    (tmp_path / "train").mkdir()
    (tmp_path / name).write_text("seeds: 3")
    assert load_yaml(presets.find(name)) == {"seeds": 3}


def test_help_lists_all_settings_with_their_documentation_and_defaults(capsys, tmp_path):
    (tmp_path / "a.yaml").write_text("train: {num_envs: 16}\n")
    for argv in (["--help"], ["-h", "all"]):
        with pytest.raises(SystemExit):
            command_line(*argv, config=tmp_path / "a.yaml")
        text = " ".join(capsys.readouterr().out.split())
        assert "--run-dir RUN_DIR where the run goes" in text
        assert "--train.num_envs integer at least 1 (default: 16)" in text
        assert "--train.every integer Updates between two points; 100% documented." in text


@pytest.mark.parametrize(
    ("argv", "key"),
    [
        (["stray"], "'stray'"),
        (["--resum"], "--resum"),
        (["--generations", "many"], "--generations"),
        (["--train.evry", "3"], "'train.evry' (did you mean 'train.every'?)"),
        (["--learning_rat", "3"], "(did you mean 'hyperparams.learning_rate'?)"),
        (["train/ppo_cartpole"], "--config train/ppo_cartpole"),
        (["train/ppo_cartpol.yaml"], "train/ppo_cartpole"),
        (["--config", "train/nope.yaml"], "; there are train/dqn_cartpole, "),
        (["--config", "none.yaml"], "none.yaml"),
        (["--resum", "1"], "--resum (did you mean resume?)"),
        (["--lr", "3"], "'lr' (did you mean 'hyperparams.learning_rate'?)"),
        (["--config", "train/ppo_cartpol"], "train/ppo_cartpole"),
    ],
)
def test_a_bad_command_line_is_refused_in_one_line(argv, key):
    with pytest.raises(ConfigError) as caught:
        command_line(*argv)
    assert key in str(caught.value)
    assert "\n" not in str(caught.value)


def test_quick_does_not_change_settings_of_the_command_line(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("train: {num_envs: 16, every: 9}\n")

    def quick(settings):
        return {**settings, "train": {**settings["train"], "num_envs": 2, "every": 1}}

    argv = ["--train.every", "7"]
    train = command_line(*argv, "--quick", config=path, quick=quick)[0].train
    assert (train.num_envs, train.every) == (2, 7)
    train = command_line(*argv, config=path, quick=quick)[0].train
    assert (train.num_envs, train.every) == (16, 7)
