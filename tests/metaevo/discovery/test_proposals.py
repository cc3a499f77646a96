import io
import json
import subprocess
import sys

import numpy as np
import pytest

import metaevo
from metaevo.__main__ import main
from metaevo.config import to_dict
from metaevo.discovery.proposals import Judged, read
from metaevo.parts import program

OPERATIONS = "add", "multiply", "tanh", "clip"
PART = program.Program("value_loss", ("error",), OPERATIONS, 12, gives="slope")
TASKS = {
    "learner": "q_learning",
    "task": {"env": "GridWorld", "env_params": {"size": 3}},
    "train": {"total_timesteps": 200, "num_steps": 50},
    "hyperparams": {"learning_rate": 0.2},
    "component": {"gives": "slope", "inputs": ["error"], "operations": OPERATIONS, "length": 12},
    "fitness": {"mean_return": 0.0, "reward_per_step": 200.0},
    "evolution": {"seeds_per_candidate": 4},
    "evaluation": {"seeds": 16, "settings": 3, "finalists": 2, "selection_seeds": 2,
                   "space": {"learning_rate": [0.1, 0.2, 0.5]}},
}  # fmt: skip


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "not JSON"),
        (b'{"expression": "error', "not JSON"),
        (b'["error"]', "mapping"),
        (b"{}", "expression"),
        (b'{"expression": 1}', "must be text"),
        (b'{"expression": "error", "constants": {"c": Infinity}}', "finite"),
        (b'{"expression": "error", "name": []}', "name"),
        (b'{"expression": "error + target"}', "unknown name 'target'"),
        (b"{\"expression\": \"__import__('os').mkdir('executed')\"}", "not allowed"),
        (b'{"expression": "%s"}' % b" + ".join([b"error"] * 7), "at most 12"),
        (b'{"expression": "%s"}' % (b"tanh(" * 9 + b"error" + b")" * 9), "10 levels"),
    ],
)
def test_a_bad_line_has_a_reason_of_one_line(line, reason, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found, meta_params = read(PART, line)
    assert not found.valid
    assert not meta_params
    assert reason in found.reason
    assert "\n" not in found.reason
    assert len(found.reason) < 1000
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("slot", "change", "error"),
    [
        ("loss", {}, "loss"),
        ("policy_loss", {}, "has no slot 'policy_loss'"),
        ("value_loss", {"task": {"env": ["GridWorld", "CartPole-v1"]}}, "task.env"),
        ("value_loss", {"trainer": {}}, "trainer"),
        ("value_loss", {"evaluation": {"space": {"depth": [1]}}}, r"evaluation\.space\.depth"),
        ("value_loss", {"evaluation": {"contenders": ["hubert"]}}, "hubert"),
    ],
)
def test_settings_are_checked_first(slot, change, error):
    with pytest.raises(metaevo.ConfigError, match=error):
        metaevo.Judge(slot, {**TASKS, **change})


@pytest.mark.parametrize("line", ["nothing", '{"id": 7}', '{"id": "a", "score": "x"}'])
def test_a_damaged_archive_is_refused_in_one_line(line, tmp_path):
    (tmp_path / "archive.jsonl").write_text(f"{line}\n")
    with pytest.raises(metaevo.ConfigError, match=r"archive.jsonl, line 1: ") as caught:
        metaevo.Judge("value_loss", TASKS, state=tmp_path)
    assert "\n" not in str(caught.value)


def test_an_archive_is_of_one_judge_and_one_task(tmp_path):
    lines = [Judged(id="a", reason="1 of 4 agents diverged"), Judged(id="b", score=1.0),
             Judged(id="c", score=2.0), Judged(id="b", score=3.0)]  # fmt: skip
    text = "".join(f"{json.dumps(to_dict(each))}\n" for each in lines)
    (tmp_path / "archive.jsonl").write_text(f'{text}{{"id": "d", "na')  # killed
    with metaevo.Judge("value_loss", TASKS, state=tmp_path) as judge:
        assert judge.archive == [lines[3], lines[2], lines[0]]  # the last line with an id counts
        with pytest.raises(metaevo.ConfigError, match="in use by another run"):
            metaevo.Judge("value_loss", TASKS, state=tmp_path)
    other = {**TASKS, "hyperparams": {"learning_rate": 0.3}}
    with pytest.raises(metaevo.ConfigError, match=r"hyperparams.learning_rate = 0.2, not 0.3"):
        metaevo.Judge("value_loss", other, state=tmp_path)


@pytest.mark.long
def test_programs_are_scored_once_and_the_best_has_a_verdict(tmp_path):
    def submit(proposals):
        with metaevo.Judge("value_loss", TASKS, state=tmp_path) as judge:
            return judge.submit(proposals), judge

    half = {"expression": "c * error", "name": "a", "constants": {"c": 0.5}}
    proposals = ["error", half, "0.5 * error", "erorr", "error"]
    answers, judge = submit(proposals)
    error, named, equal, *_ = answers
    assert [each.id for each in answers] == [error.id, named.id, named.id, "", error.id]
    assert [each.name for each in answers] == [None, "a", None, None, None]
    assert [each.valid for each in answers] == [True, True, True, False, True]
    assert (equal.text, equal.score) == ("0.5 * error", named.score)
    assert judge.archive == sorted([error, named], key=lambda each: -each.score)
    assert judge.archive[0].verdict is not None
    with pytest.raises(ValueError, match="closed"):
        judge.submit(["error"])

    scores = judge.scores(error.id)
    assert scores.contenders == ("squared", "huber", "sloped_squared", f"program_{error.id}")
    for tried in (scores.screening, scores.selection, scores.held_out):
        np.testing.assert_allclose(tried[3], tried[0])  # both are squared error, and tuned alike
    path = tmp_path / "archive.jsonl"
    before = path.read_bytes()
    assert submit(proposals)[0] == answers
    assert path.read_bytes() == before  # nothing was trained
    cut = b"".join(before.splitlines(keepends=True)[:2]) + b'{"id": "ab'  # killed
    path.write_bytes(cut)
    assert submit(proposals)[0] == answers
    assert path.read_bytes() == before


@pytest.mark.long
def test_the_command_answers_one_at_a_time_and_survives_a_kill(tmp_path, monkeypatch, capsys):
    several = {key: value for key, value in TASKS.items() if key != "task"}
    several["tasks"] = {
        "small": {"env": "GridWorld", "env_params": {"size": 3}},
        "large": {"env": "GridWorld", "train": {"total_timesteps": 400}},
    }
    several["evaluation"] = {"seeds": 16, "settings": 0, "contenders": ["squared"]}
    (tmp_path / "tasks.yaml").write_text(json.dumps(several))  # YAML 1.2 contains JSON
    argv = [sys.executable, "-m", "metaevo", "judge", "--slot", "value_loss", "--tasks",
            "tasks.yaml", "--state", "state"]  # fmt: skip
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, cwd=tmp_path, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        answers = []
        for line in (b'{"expression": "error", "name": "a"}\n', b"oops\n"):
            process.stdin.write(line)
            process.stdin.flush()
            answers.append(json.loads(process.stdout.readline()))
        process.kill()
    assert [each["valid"] for each in answers] == [True, False]
    assert answers[0]["verdict"]["word"] == "undecided"  # equal to the only baseline
    text = b'{"expression": "error", "name": "a"}\n{"expression": "error +'
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert main(argv[3:]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == answers[0]
    assert not second["valid"]
