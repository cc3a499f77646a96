"""The judge of proposals: bad lines, streaming, the archive, training, and a whole command."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import metaevo
from metaevo.discovery.archive import Archive, Judged
from metaevo.discovery.proposals import MAX_LINE, read
from metaevo.parts import program

OPERATIONS = "add", "multiply", "tanh", "clip"
PART = program.Program("value_loss", "slope", ("error",), OPERATIONS, 12)
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


# --- Reading --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "not JSON"),
        (b'{"expression": "error', "not JSON"),
        (b'{"expression": "\xff"}', "not JSON"),
        (b"[" * 5000, "not JSON"),
        (b'["error"]', "mapping"),
        (b"{}", "expression"),
        (b'{"expression": 1}', "must be text"),
        (b'{"expression": "error", "constants": {"c": Infinity}}', "finite"),
        (b'{"expression": "error", "constants": {"c": "1"}}', "number"),
        (b'{"expression": "error", "name": []}', "name"),
        (b'{"expression": "error", "constants": {"error": 2}}', "not taken"),
        (b'{"expression": "error + target"}', "unknown name 'target'"),
        (b'{"expression": "exp(error)"}', "needs exp"),
        (b"{\"expression\": \"__import__('os').mkdir('executed')\"}", "not allowed"),
        (b'{"expression": "%s"}' % b" + ".join([b"error"] * 7), "at most 12"),
        (b'{"expression": "%s"}' % (b"tanh(" * 9 + b"error" + b")" * 9), "10 levels"),
        (b'{"expression": "%s"}' % (b"x" * MAX_LINE), "at most"),
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


def test_a_proposal_is_a_program_with_its_constants():
    line = {"expression": "tanh(error) * c", "constants": {"c": 3}, "name": "a", "thought": "?"}
    found, meta_params = read(PART, b"\xef\xbb\xbf" + json.dumps(line).encode())  # of Windows
    assert (found.reason, found.name, found.parent) == (None, "a", None)
    codes, constants = PART.compiled("tanh(error) * 3.0")
    np.testing.assert_array_equal(meta_params["codes"], [codes])
    np.testing.assert_array_equal(meta_params["constants"], [constants])


# --- Settings and archive -------------------------------------------------------------------------


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


def test_an_archive_keeps_whole_lines_and_the_last_one_of_a_program_counts(tmp_path):
    first, second = Judged("a", 0, "error", {"c": 1.0}, "error", id=0, score=1.0), Judged(id=1)
    archive = Archive(tmp_path, {"seed": 0})
    for each in (first, second, replace(second, score=2.0, interval=(1.0, 3.0))):
        archive.write(each)
    archive.close()
    with open(tmp_path / "archive.jsonl", "ab") as file:
        file.write(b'{"id": 2, "na')  # killed
    archive = Archive(tmp_path, {"seed": 0})
    third = Judged(id=2, reason="1 of 3 agents diverged")
    archive.write(third)
    archive.close()
    archive = Archive(tmp_path, {"seed": 0})
    best = replace(second, score=2.0, interval=(1.0, 3.0))
    assert archive.programs == [first, best, third]
    assert archive.ranked() == [best, first, third]
    archive.close()


def test_another_or_a_damaged_archive_is_refused_in_one_line(tmp_path):
    def refused(error, size=4):
        with pytest.raises(metaevo.ConfigError, match=error) as caught:
            Archive(tmp_path, {"task": {"size": size}})
        assert "\n" not in str(caught.value)

    archive = Archive(tmp_path, {"task": {"size": 4}})
    refused("in use by another run")
    archive.close()
    refused(r"task\.size = 4, not 5", size=5)
    lines = {"nothing": "not JSON", '{"id": 7}': "missing", '{"id": 0, "score": "x"}': "x"}
    for line, error in lines.items():
        (tmp_path / "archive.jsonl").write_text(f"{line}\n")
        refused(f"archive.jsonl, line 1: .*{error}")


# --- Training -------------------------------------------------------------------------------------


@pytest.mark.long
def test_programs_are_ranked_and_answered_from_the_archive(tmp_path):
    def submit(proposals):
        with metaevo.Judge("value_loss", TASKS, state=tmp_path) as judge:
            return judge.submit(proposals), judge

    near = [f"clip(1000 * (error + -{step}), 0, 1)" for step in (0.3, 0.31, 1.0, 1.03)]
    proposals = ["error", {"expression": "c * error", "name": "a", "constants": {"c": 0.5}},
                 "clip(error, -900, 900)", "0 * error", "erorr", *near, "error"]  # fmt: skip
    answers, judge = submit(proposals)
    error, half, clipped, nothing, *_ = answers
    assert [each.duplicate_of for each in answers] == [None, None, 0, *[None] * 7]
    assert [each.id for each in answers] == [0, 1, 0, None, None, 2, 3, 4, 5, 0]
    assert [each.valid for each in answers] == [True, True, True, False, False, *[True] * 5]
    assert "0 everywhere" in nothing.reason
    assert (half.name, half.constants, half.text) == ("a", {"c": 0.5}, "0.5 * error")
    assert (clipped.score, clipped.rank) == (error.score, error.rank)
    scores = [each.score for each in judge.archive]
    assert scores == sorted(scores, reverse=True)
    assert all(judge.archive[each.rank - 1].id == each.id for each in answers if each.valid)
    assert judge.archive[0].verdict is not None
    with pytest.raises(ValueError, match="closed"):
        judge.submit(["error"])

    scores = judge.scores(0)
    assert scores.contenders == ("squared", "huber", "sloped_squared", "program_0")
    for tried in (scores.screening, scores.selection, scores.held_out):
        np.testing.assert_allclose(tried[3], tried[0])  # both are squared error, and tuned alike
    path = tmp_path / "archive.jsonl"
    before = path.read_bytes()
    assert submit(proposals)[0] == answers
    assert path.read_bytes() == before  # nothing was trained
    path.write_bytes(b"".join(before.splitlines(keepends=True)[:3]))  # killed
    assert submit(proposals)[0] == answers
    assert path.read_bytes() == before


@pytest.mark.long
def test_the_command_answers_one_at_a_time_and_survives_a_kill(tmp_path):
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
    done = subprocess.run(argv, cwd=tmp_path, input=text, capture_output=True, check=True)
    first, second = map(json.loads, done.stdout.splitlines())
    assert first == answers[0]
    assert not second["valid"]
    assert b"Traceback" not in done.stderr
