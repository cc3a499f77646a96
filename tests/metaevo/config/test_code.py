from pathlib import Path

import pytest

import metaevo
from metaevo.commands.sweep import main as sweep
from metaevo.commands.train import main as train
from metaevo.config import ConfigError, code, references
from metaevo.config.plain import names_in
from metaevo.runs.run_directory import RunDirectory
from tests import processes

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize(
    "settings",
    [
        {"problem": "a.py:B"},
        {"learner": "a.py:B", "run": {"wandb_project": "not:code"}},
        {"tasks": {"a.py:B": {}}},
        {"tasks": {"run": {"env": "a.py:B"}}},
        {"tasks": {"x": {"train": {"network": "a.py:B"}}}},
        {"evaluation": {"unseen": {"x": {"env": "a.py:B"}}}},
        {"opponent": {"names": ["lola", "a.py:B"]}},
        {"value_loss": "a.py", "make_optimizer": "zoo:ppo"},
        {"evolve": ["drift", "a.b:C"]},
    ],
)
def test_code_is_found_wherever_settings_name_it(settings):
    (name,) = names_in(settings)
    path = Path("run")
    with pytest.raises(ConfigError, match=f"^run: .* add --code {name} "):
        code.admit(path, settings, {}, {"task": {"env": "CartPole-v1"}})
    code.admit(path, settings, {}, {"other": name})


def test_two_files_of_the_same_name_are_refused(tmp_path):
    names = {}
    for folder in "ab":
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "loss.py").write_text(folder)
        names[folder] = str(tmp_path / folder / "loss.py")
    code.keep(tmp_path, {"value_loss": names["a"]})
    assert (tmp_path / "code" / "loss.py").read_text() == "a"
    with pytest.raises(ConfigError, match=r"called loss\.py"):
        code.keep(tmp_path, names)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A training that names an environment, of which this process knows nothing."""
    mark, path = tmp_path / "executed", tmp_path / "walk.py"
    source = (EXAMPLES / "corridor.py").read_text()
    path.write_text(f"{source}\n\nopen({str(mark)!r}, 'a').close()\n")
    monkeypatch.setattr(code, "_LOADED", {})
    settings = {"learner": "ppo", "task": {"env": f"{path}:Corridor"}}
    directory = RunDirectory.create(tmp_path / "run", "")
    directory.write_config(settings, {"run_id": "a", "code": code.digests(settings)})
    assert not mark.exists()
    return directory, f"{path}:Corridor", mark


@pytest.mark.parametrize("command", [train, sweep])
def test_code_that_only_a_run_names_does_not_run(command, run, refused):
    directory, name, mark = run
    argv = ["--resume", "--run-dir", str(directory.path)]
    assert f"--code {name}" in refused(command, argv)
    with pytest.raises(ConfigError, match="does not name"):
        metaevo.load_training(directory.path)
    assert not mark.exists()
    with pytest.raises(ConfigError, match="holds no finished"):
        metaevo.load_training(directory.path, code=[name])
    assert mark.exists()


@pytest.mark.parametrize("flag", ["--code", "--task.env"])
def test_a_new_process_runs_the_named_code_of_a_run(flag, run):
    """Importing an environment starts JAX, so the devices have to be set up before."""
    directory, name, mark = run
    words = ["train", "--resume", "--run-dir", str(directory.path), flag, name, "--dry-run"]
    assert "frames" in processes.metaevo(*words)
    assert mark.exists()


def test_code_that_has_changed_since_its_run_began_does_not_run(run, refused):
    directory, name, mark = run
    path = Path(name.removesuffix(":Corridor"))
    path.write_text(path.read_text() + "\n# changed\n")
    resume = ["--resume", "--run-dir", str(directory.path)]
    for named in (["--code", name], ["--task.env", name]):
        line = refused(train, [*resume, *named])
        assert f"{name} changed since the run began" in line
    with pytest.raises(ConfigError, match="changed since the run began"):
        metaevo.load_training(directory.path, code=[name])
    assert not mark.exists()


def test_two_classes_of_one_name_are_two_names():
    first, second = (type("Twin", (), {}) for _ in range(2))
    assert references.name_of(first) == references.name_of(first)
    assert references.name_of(first) != references.name_of(second)
