"""`metaevo zoo`: its list, its cards, and entries made from runs."""

import json

import jax
import numpy as np
import pytest
from PIL import Image

import metaevo
from metaevo import zoo
from metaevo.__main__ import main
from metaevo.components import discovery, parts, value_loss
from metaevo.config import ConfigError, to_dict
from metaevo.curation.add import add
from metaevo.runs.run_directory import RunDirectory
from metaevo.studies.settings import experiment_class
from metaevo.zoo import entries
from tests.metaevo.toy import assert_same

SCORES = list(np.linspace(100.0, 140.0, 8))


def run_zoo(capsys, *argv):
    """The exit code and what is printed."""
    try:
        code = main(["zoo", *map(str, argv)])
    except SystemExit as error:
        code = error.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def own(tmp_path, monkeypatch):
    folder = tmp_path / "entries"
    folder.mkdir()
    monkeypatch.setattr(entries, "FOLDER", folder)
    monkeypatch.setattr(zoo, "FOLDER", folder)
    return folder


@pytest.fixture
def run(tmp_path):
    """A run of evolution that has ended with a comparison."""
    settings = experiment_class({"evolve": "value_loss"}, None)()
    run = RunDirectory.create(tmp_path / "run", "test")
    run.write_config(to_dict(settings), {}, ["cpu:0 cpu"])
    meta_params = value_loss.make(settings.component).init(jax.random.key(0))
    evolved = parts.make("value_loss", settings.component)
    discovery.save(run, evolved, meta_params, 3, "ppo")
    rows = [
        {
            "name": f"{name} ({how})", "function": name, "settings": {}, "tuning_frames": frames,
            "seeds": 8, "scores": SCORES, "iqm": 120.0, "interval": [110.0, 130.0],
        }
        for name in ("learned", "squared")
        for how, frames in (("same hyperparameters", 0), ("tuned", 64))
    ]  # fmt: skip
    pair = {
        "learned": "learned (tuned)", "other": "squared (tuned)", "conclusion": "undecided",
        "difference": 0.0, "difference_interval": [-5.0, 5.0],
    }  # fmt: skip
    evidence = {
        "variants": rows, "pairs": [pair], "against_best": pair, "conclusion": "undecided",
        "learned": "learned (tuned)", "evolution_frames": 1000, "frames_per_agent": 10,
    }  # fmt: skip
    run.evaluation_path.write_text(json.dumps(evidence))
    return run


def test_an_entry_made_from_a_run_is_what_the_run_found(run, own, capsys):
    run.figures.mkdir()
    Image.new("RGB", (1600, 900), "white").save(run.figures / "loss.png")
    code, out, _ = run_zoo(capsys, "add", run.path, "--name", "mine", "--title", "a loss")
    assert code == 0
    assert "zoo:mine, version 1: a loss" in out
    assert "learned (same hyperparameters)  120.0 [110.0, 130.0]" in out
    function, meta_params = metaevo.load("zoo:mine")
    was, expected = discovery.load(run.path)
    assert_same(meta_params, expected)
    arguments = None, 1.0, 0.25, 0.5
    assert function(meta_params, *arguments) == was(expected, *arguments)
    repeated = zoo.find("mine").card["repeat"]
    assert repeated["mean"] == pytest.approx(120.0)
    assert repeated["std"] == pytest.approx(np.std(SCORES, ddof=1))
    with Image.open(own / "mine" / "picture.png") as picture:
        assert picture.size == (800, 450)
    assert str(run.path) not in (own / "mine" / "entry.json").read_text()


def test_an_entry_is_replaced_only_by_its_next_version(run, own):
    add(run.path, "mine")
    with pytest.raises(ConfigError, match="zoo:mine exists: entries do not change"):
        add(run.path, "mine")
    assert add(run.path, "mine", replace=True).card["version"] == 2
    assert [path.name for path in own.iterdir()] == ["mine"]


def test_no_entry_without_evidence(run, own, capsys):
    content = json.loads(run.evaluation_path.read_text())
    del content["against_best"]
    run.evaluation_path.write_text(json.dumps(content))
    with pytest.raises(ConfigError, match="has no 'against_best'"):
        add(run.path, "mine")
    run.evaluation_path.unlink()
    code, out, err = run_zoo(capsys, "add", run.path, "--name", "mine")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"error: {run.path} has no held-out evidence (evaluation.json)")
    assert list(own.iterdir()) == []


def test_a_quick_look_is_no_evidence(run, own):
    text = run.config_path.read_text()
    assert "quick: false" in text
    run.config_path.write_text(text.replace("quick: false", "quick: true"))
    with pytest.raises(ConfigError, match="quick look"):
        add(run.path, "mine")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["show", "dpp"], "'zoo:dpp' is not in the zoo (did you mean zoo:dpo?)"),
        (["show"], "zoo show: needs the name of an entry"),
        (["list", "dpo"], "zoo list takes no name"),
        (["add"], "zoo add: needs the directory of a run"),
        (["add", "nowhere", "--name", "x"], "run directory nowhere holds no run"),
        (["add", "nowhere", "--name", "A/b"], "'A/b': must be a name of small letters"),
        (["repeat", "dpo", "--seeds", "1"], "--seeds = 1: must be from 2 to 4096"),
        (["sell"], "argument action: invalid choice: 'sell'"),
    ],
)
def test_bad_input_is_one_line(argv, message, capsys):
    code, out, err = run_zoo(capsys, *argv)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"error: {message}")


def test_the_list_and_a_card(capsys):
    code, out, _ = run_zoo(capsys)
    assert code == 0
    assert all(f"zoo:{name} " in out for name in zoo.names())
    code, out, _ = run_zoo(capsys, "show", "zoo:dpo")
    assert code == 0
    assert "Lu et al. 2022" in out
    assert "--policy_loss zoo:dpo" in out
