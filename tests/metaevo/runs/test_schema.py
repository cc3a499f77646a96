"""Values that no run writes: every reader of a run directory refuses them in one line."""

import json

import pytest

from metaevo.comparison.sources import read
from metaevo.config import ConfigError, dump_yaml
from metaevo.runs.run_directory import RunDirectory

CONFIG = {
    "config": {"learner": "ppo", "seeds": 2, "run": {"seed": 1}, "task": {"env": "CartPole-v1"}},
    "resolved": {"run_id": "a", "num_devices": 1, "chunk_size": 2},
    "environment": {"started": "2026-11-20T10:00:00+01:00"},
}
RECORD = {"kind": "update", "update": 0, "frames": 8, "seconds": 0.5, "returns": [1.0, None]}
EVALUATION = {"variants": [{"name": "ppo", "scores": [1.0, None]}]}


def changed(data, path, value):
    """A copy of nested data with another value at a dotted path."""
    copy = json.loads(json.dumps(data))
    *parents, last = path.split(".")
    place = copy
    for key in parents:
        place = place[int(key)] if isinstance(place, list) else place[key]
    place[int(last) if isinstance(place, list) else last] = value
    return copy


def make(path, config=CONFIG, record=RECORD, evaluation=EVALUATION):
    run = RunDirectory.create(path, "")
    run.config_path.write_text(dump_yaml(config), encoding="utf-8")
    run.metrics_path.write_text(json.dumps(record) + "\n")
    run.evaluation_path.write_text(json.dumps(evaluation))
    return run


def test_valid_files_are_read(tmp_path):
    assert read(make(tmp_path / "run").path)


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("config", "config", []),
        ("config", "config.seeds", 0),
        ("config", "config.seeds", True),
        ("config", "resolved.run_id", 3),
        ("config", "resolved.chunk_size", 2**31),
        ("config", "environment.started", "yesterday"),
        ("record", "update", -1),
        ("record", "update", 0.5),
        ("record", "frames", None),
        ("record", "seconds", "1"),
        ("record", "returns", 1.0),
        ("record", "returns", [[1.0]]),
        ("record", "kind", None),
        ("evaluation", "variants", {}),
        ("evaluation", "variants.0.name", None),
        ("evaluation", "variants.0.scores", [[]]),
        ("evaluation", "variants.0.scores", ["1"]),
        ("evaluation", "variants.0.scores", [10**400]),
    ],
)
def test_a_value_of_another_kind_is_refused_in_one_line(tmp_path, name, path, value):
    given = {"config": CONFIG, "record": RECORD, "evaluation": EVALUATION}[name]
    run = make(tmp_path / "run", **{name: changed(given, path, value)})
    with pytest.raises(ConfigError) as refused:
        read(run.path)
    assert len(str(refused.value).splitlines()) == 1
    file = {"config": "config.yaml", "record": "metrics.jsonl", "evaluation": "evaluation.json"}
    assert file[name] in str(refused.value)
