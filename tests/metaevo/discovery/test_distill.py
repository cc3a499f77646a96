import json

import jax
import numpy as np
import pytest

import metaevo
from metaevo.commands.distill import main
from metaevo.config import ConfigError, dump_yaml, to_dict
from metaevo.discovery import distill
from metaevo.parts import LearnedOptimizer, records
from metaevo.parts.learners import part_class
from metaevo.parts.part import LEARNED, Parts
from metaevo.parts.resolve import fill
from metaevo.parts.saved import load
from metaevo.runs.run_directory import RunDirectory
from purerl.parts.losses import VALUE_LOSS
from tests.metaevo.evolving import EVOLUTION, settings_of

TINY = EVOLUTION | {
    "component": {"form": "additive", "hidden_sizes": [3], "start": "random"},
    "evaluation": {"seeds": 0, "settings": 4, "screening_seeds": 2, "finalists": 2,
                   "selection_seeds": 2, "space": {"learning_rate": [0.2, 0.5]}},
}  # fmt: skip


def test_other_directories_are_refused(tmp_path, refused):
    trained = {"config": {"learner": "ppo"}, "resolved": {}, "environment": {}}
    (tmp_path / "config.yaml").write_text(dump_yaml(trained))
    for argv in ([], [str(tmp_path / "nothing")], [str(tmp_path)]):
        refused(main, argv)


def test_parts_that_can_be_distilled(tmp_path):
    def chosen(slot, *parts):
        return distill.part_to_distill(tmp_path, Parts({each.slot: each for each in parts}), slot)

    both = [part_class(name)() for name in ("value_loss", "drift", "lpg")]
    assert chosen("policy_loss", *both) is both[1]
    assert chosen(None, LearnedOptimizer())
    others = (part_class(name)() for name in ("lpg", "schedule"))
    other = LearnedOptimizer(memory_size=2), *others
    for slot, parts in [(None, both), ("schedule", both), *((None, [each]) for each in other)]:
        with pytest.raises(ConfigError):
            chosen(slot, *parts)


@pytest.fixture(scope="module")
def evolved(tmp_path_factory):
    settings = settings_of(TINY)
    parts = settings.build().parts
    run = RunDirectory.create(tmp_path_factory.mktemp("distill") / "run", "test")
    run.write_config(to_dict(settings), {})
    records.write(run, parts, parts.init(jax.random.key(0)), 1)
    return run.path


@pytest.mark.long
def test_a_loss_becomes_formulas(evolved, capsys):
    pytest.importorskip("pyoperon")
    argv = [str(evolved), "--evaluations", "3000", "--formulas", "2", "--evaluation.seeds", "8"]
    folder = evolved / "distill/value_loss"
    assert main([*argv, "--dry-run"]) == 0
    assert "3,000" in capsys.readouterr().out
    assert not folder.parent.exists()
    assert main(argv) == 0
    found = json.loads((folder / "distilled.json").read_text())
    scores = metaevo.Scores.load(folder / "scores.npz")
    assert found["inputs"] == ["error"]
    front = {each["name"]: each for each in found["front"]}
    formulas = [name for name in scores.contenders if name in front]
    assert 1 <= len(formulas) <= 2
    assert formulas == sorted(formulas, key=lambda name: front[name]["length"])
    texts = [front[name]["text"] for name in formulas]
    assert scores.contenders[: len(formulas) + 1] == (LEARNED, *formulas)
    assert scores.discoveries == (LEARNED, *texts)
    assert scores.baselines == ("squared", "huber", "sloped_squared")
    assert (scores.tried, scores.seeds) == (4, 8)
    for name in formulas:
        value_loss, meta_params = load(folder / name.replace(" ", "_"))
        assert set(meta_params["relative"]) == set(front[name]["constants"])
        assert np.isfinite(value_loss(meta_params, None, 0.5, 0.25, 0.5))
    assert (folder / "report.html").exists()
    before = (folder / "scores.npz").stat().st_mtime_ns
    assert main(argv) == 0
    assert (folder / "scores.npz").stat().st_mtime_ns == before  # nothing is judged again

    slot = str(folder / formulas[-1].replace(" ", "_"))
    assert fill(VALUE_LOSS, slot).part.text(meta_params) == texts[-1]


def test_rules_of_several_tasks_are_refused(tmp_path):
    pytest.importorskip("pyoperon")
    tasks = {"near": {"env": "GridWorld", "env_params": {"size": 2}}, "far": {"env": "GridWorld"}}
    raw = {key: value for key, value in TINY.items() if key != "task"}
    settings = settings_of({**raw, "tasks": tasks})
    with pytest.raises(ConfigError, match="several tasks"):
        distill.distill(
            settings, settings, tmp_path, slot=None, name=None, evaluations=1, formulas=1
        )


@pytest.mark.long
def test_invalid_options_are_refused(evolved, refused):
    pytest.importorskip("pyoperon")
    for flag, value in {
        "--slot": "policy_loss", "--component.hidden_sizes": "[5]", "--formulas": "0"
    }.items():  # fmt: skip
        message = refused(main, [str(evolved), flag, value])
        assert flag.removeprefix("--") in message
    (evolved / "meta_params.npz").unlink()
    assert "holds no evolved part" in refused(main, [str(evolved)])
