"""The judge of proposals: bad lines, streaming, the race, the archive, and a whole command."""

import json
import os
import subprocess
import sys
import threading
from typing import ClassVar

import numpy as np
import pytest

import metaevo
from metaevo.discovery.proposals import judge as judge_module
from metaevo.discovery.proposals.archive import Archive
from metaevo.discovery.proposals.judge import SURVIVORS
from metaevo.discovery.proposals.reading import MAX_LINE, batches, read
from metaevo.parts import program

CONFIG = program.Program("value_loss", "slope", ("error",), ("add", "multiply", "tanh", "clip"), 12)
TASKS = {
    "learner": "q_learning",
    "task": {"env": "GridWorld", "env_params": {"size": 4}},
    "train": {"total_timesteps": 200, "num_steps": 50},
    "hyperparams": {"learning_rate": 0.2},
    "component": {
        "gives": "slope",
        "inputs": ["error"],
        "operations": ["add", "multiply", "tanh", "clip"],
        "length": 12,
    },
    "fitness": {"mean_return": 0.0, "reward_per_step": 200.0},
    "evolution": {"seeds_per_candidate": 3, "validation_seeds": 5},
    "evaluation": {"seeds": 8},
}
PROPOSALS = [f"error + {number / 100}" for number in range(1, 41)]


# --- Reading --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "not a JSON object"),
        (b'{"expression": "error', "not a JSON object"),
        (b'{"expression": "\xff"}', "not a JSON object"),
        (b"[" * 5000, "not a JSON object"),
        (b'["error"]', "not a JSON object"),
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
    found = read(CONFIG, line)
    assert found.meta_params is None
    assert reason in found.reason
    assert "\n" not in found.reason
    assert len(found.reason) < 1000
    assert list(tmp_path.iterdir()) == []


def test_a_proposal_is_a_program_with_its_constants():
    line = {"expression": "tanh(error) * c", "constants": {"c": 3}, "name": "a", "thought": "?"}
    found = read(CONFIG, b"\xef\xbb\xbf" + json.dumps(line).encode())  # as Windows writes it
    assert (found.reason, found.name, found.parent) == (None, "a", None)
    expected = CONFIG.compiled("tanh(error) * 3.0")
    np.testing.assert_array_equal(found.meta_params["codes"][0], expected[0])
    np.testing.assert_array_equal(found.meta_params["constants"][0], expected[1])


def test_a_bad_proposal_keeps_its_names():
    found = read(CONFIG, b'{"expression": "error", "constants": 1, "name": "a", "parent": 7}')
    assert (found.expression, found.name, found.parent) == ("error", "a", 7)
    assert "constants" in found.reason


def test_lines_are_returned_as_they_arrive():
    reader, writer = os.pipe()
    found = batches(reader, 3)
    os.write(writer, b"a\nb\nc\nd\ne")
    assert [next(found), next(found)] == [[b"a", b"b", b"c"], [b"d"]]
    os.write(writer, b"f\n")  # nobody waits for more
    assert next(found) == [b"ef"]
    os.write(writer, b"\nmid-line")
    os.close(writer)
    assert list(found) == [[b""], [b"mid-line"]]
    os.close(reader)


def test_many_lines_of_any_length_are_read_in_order_and_bounded():
    rng = np.random.default_rng(0)
    lengths = [*rng.integers(0, 300, 5000).tolist(), 5 * MAX_LINE, 3, MAX_LINE, 0]
    lines = [bytes([97 + number % 26]) * size for number, size in enumerate(lengths)]
    reader, writer = os.pipe()

    def write():
        with os.fdopen(writer, "wb") as file:
            file.write(b"\n".join(lines) + b"\n")

    thread = threading.Thread(target=write)
    thread.start()
    parts = list(batches(reader, 100))
    thread.join()
    os.close(reader)
    assert max(map(len, parts)) <= 100
    assert max(len(each) for part in parts for each in part) <= MAX_LINE + 2**16 + 1
    read_ones = [each for part in parts for each in part]
    assert [each[:MAX_LINE] for each in read_ones] == [each[:MAX_LINE] for each in lines]


# --- Race and archive, with scores that are drawn instead of trained ------------------------------


class Drawn:
    """Trials with scores around a constant of the program, the same for the same seeds."""

    trained: ClassVar[list] = []
    """programs and seeds of each call"""
    judged: ClassVar[list] = []

    def __init__(self, settings, folder, batch):
        del settings, folder, batch

    def scores(self, programs, purpose, seeds):
        self.trained.append((len(programs), seeds))
        rng = np.random.default_rng(int(purpose))
        quality = np.array([each["constants"][0].sum() for each in programs], np.float64)[:, None]
        found = quality + 0.1 * np.cos(1e4 * quality + 10 * rng.normal(size=seeds))
        found[quality[:, 0] > 9] = np.nan
        return found[..., None]

    def verdict(self, program):
        self.judged.append(float(program["constants"][0].sum()))
        return {"conclusion": "better", "iqm": 1.0, "interval": [0.0, 2.0], "seeds": 8,
                "baseline": "huber (tuned)", "baseline_iqm": 0.5, "difference": 0.5,
                "difference_interval": [0.1, 0.9], "p": 0.01}  # fmt: skip


@pytest.fixture
def drawn(monkeypatch):
    monkeypatch.setattr(judge_module, "Trials", Drawn)
    monkeypatch.setattr(Drawn, "trained", [])
    monkeypatch.setattr(Drawn, "judged", [])
    return Drawn


@pytest.mark.parametrize("at_once", [1, 40])
def test_the_best_get_all_seeds_and_a_verdict_in_any_order(drawn, at_once, tmp_path):
    judge = metaevo.Judge("value_loss", TASKS, state=tmp_path, batch=8)
    order = np.random.default_rng(1).permutation(PROPOSALS).tolist()
    answers, stages = [], []
    for start in range(0, len(order), at_once):
        answers += judge.submit(order[start : start + at_once], stages.append)
    assert len(stages) == len(drawn.trained) + len(drawn.judged)
    assert [each.expression for each in answers] == order
    assert all(each.valid and each.duplicate_of is None for each in answers)
    scores = [each["score"] for each in judge.archive]
    assert scores == sorted(scores, reverse=True)
    best = judge.archive[:SURVIVORS]
    assert all(len(each["scores"]) == 8 and each["verdict"] for each in best)
    assert sum(count for count, seeds in drawn.trained if seeds == 3) == len(PROPOSALS)
    assert all(count <= 8 for count, _ in drawn.trained)
    assert len(drawn.judged) == sum(each["verdict"] is not None for each in judge.archive)
    for answer in judge.submit(order[:3]):  # the current ranks
        place = [each["id"] for each in judge.archive].index(answer.id)
        assert answer.rank == place + 1
        assert answer.duplicate_of == answer.id


def test_duplicates_and_useless_programs_are_not_trained(drawn):
    judge = metaevo.Judge("value_loss", TASKS)
    given = ["error + 0.5", "0.5 + error", "clip(error + 0.5, -900, 900)", "0 * error",
             "error + 0.5001", "error + x"]  # fmt: skip
    found = judge.submit(given)
    assert [each.duplicate_of for each in found] == [None, 0, 0, None, None, None]
    assert [each.valid for each in found] == [True, True, True, False, True, False]
    assert found[1].score == found[0].score
    assert "0 everywhere" in found[3].reason
    assert sum(count for count, seeds in drawn.trained if seeds == 3) == 2


def test_close_thresholds_are_not_duplicates(drawn):
    judge = metaevo.Judge("value_loss", TASKS)
    steps = 0.3, 0.31, 1.0, 1.03, 3.0, 3.1
    near = [f"clip(1000 * (error + -{step}), 0, 1)" for step in steps]
    assert [each.duplicate_of for each in judge.submit(near)] == [None] * 6


def test_a_closed_judge_refuses_proposals(drawn, tmp_path):
    with metaevo.Judge("value_loss", TASKS, state=tmp_path) as judge:
        (answer,) = judge.submit("error + 1")
    assert answer.valid
    before = (tmp_path / "archive.jsonl").read_bytes()
    with pytest.raises(ValueError, match="closed"):
        judge.submit(["error + 2"])
    assert (tmp_path / "archive.jsonl").read_bytes() == before


def test_programs_with_diverging_agents_are_invalid(drawn):
    judge = metaevo.Judge("value_loss", TASKS)
    bad, good = judge.submit(["error + 10", "error + 1"])
    assert (bad.valid, bad.score, bad.rank, bad.id) == (False, None, None, 0)
    assert "3 of 3 agents diverged" in bad.reason
    assert good.rank == 1
    assert [each["id"] for each in judge.archive] == [1, 0]


def submit(folder, proposals):
    with metaevo.Judge("value_loss", TASKS, state=folder) as judge:
        return judge.submit(proposals)


def test_a_rerun_answers_from_the_archive(drawn, tmp_path):
    proposals = [{"expression": each, "name": each} for each in PROPOSALS[:9]]
    proposals += [{"expression": "error + c", "constants": {"c": 0.01}}]
    first = submit(tmp_path, proposals)
    path = tmp_path / "archive.jsonl"
    with open(path, "ab") as file:
        file.write(b'{"id": 3, "na')
    drawn.trained.clear()
    assert submit(tmp_path, proposals) == first
    assert first[-1].duplicate_of == 0
    assert drawn.trained == []
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:5]))  # killed before the race
    assert submit(tmp_path, proposals) == first
    assert drawn.trained[0] == (4, 3)


def test_an_archive_of_something_else_is_refused(drawn, tmp_path):
    judge = metaevo.Judge("value_loss", TASKS, state=tmp_path)
    with pytest.raises(metaevo.ConfigError, match="another judge"):
        metaevo.Judge("value_loss", TASKS, state=tmp_path)
    judge.close()
    other = {**TASKS, "task": {"env": "GridWorld", "env_params": {"size": 5}}}
    with pytest.raises(metaevo.ConfigError, match=r"task\.env_params\.size = 4, not 5"):
        metaevo.Judge("value_loss", other, state=tmp_path)
    schedule = {"train": {"total_timesteps": 1024}}
    with pytest.raises(metaevo.ConfigError, match="slot = 'value_loss', not 'schedule'"):
        metaevo.Judge("schedule", schedule, state=tmp_path)


def test_a_folder_of_other_files_is_left_alone(drawn, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(metaevo.ConfigError, match="no archive"):
        metaevo.Judge("value_loss", TASKS, state=tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["notes.txt"]


def test_a_damaged_archive_is_refused_in_one_line(tmp_path):
    def archive():
        Archive(tmp_path, {"slot": "value_loss"}).unlock()

    archive()
    (tmp_path / "archive.jsonl").write_text('{"id": 0}\n')
    with pytest.raises(metaevo.ConfigError, match=r"archive.jsonl, line 1: has no"):
        archive()
    (tmp_path / "archive.jsonl").write_text("nothing\n")
    with pytest.raises(metaevo.ConfigError, match=r"line 1: not a JSON object"):
        archive()


@pytest.mark.parametrize(
    ("slot", "change", "error"),
    [
        ("loss", {}, "slot = 'loss': must be one of"),
        ("policy_loss", {}, "has no slot 'policy_loss'"),
        ("value_loss", {"component": {"slot": "schedule"}}, r"component\.slot = 'schedule'"),
        ("value_loss", {"task": {"env": ["GridWorld", "CartPole-v1"]}}, "task.env"),
        ("value_loss", {"trainer": {}}, "trainer"),
    ],
)
def test_settings_are_checked_first(slot, change, error):
    with pytest.raises(metaevo.ConfigError, match=error):
        metaevo.Judge(slot, {**TASKS, **change})


# --- Training -------------------------------------------------------------------------------------


@pytest.mark.long
def test_squared_error_as_a_program_scores_as_the_hand_written_one(tmp_path):
    judge = metaevo.Judge("value_loss", TASKS, state=tmp_path, batch=2)
    found = judge.submit(["error", "0.5 * error"])
    kept = json.loads((tmp_path / "baselines" / "task.json").read_text())
    squared = next(row for row in kept["rows"] if row["function"] == "squared")
    assert found[0].verdict["iqm"] == pytest.approx(metaevo.statistics.iqm(squared["scores"]))
    assert found[0].verdict["seeds"] == 8
    assert found[1].verdict["baseline"] == found[0].verdict["baseline"]
    assert len({each.score for each in found}) == len({each.rank for each in found})


@pytest.mark.long
def test_the_command_answers_one_at_a_time_and_survives_a_kill(tmp_path):
    several = {key: value for key, value in TASKS.items() if key != "task"}
    several["tasks"] = {
        "small": {"env": "GridWorld", "env_params": {"size": 3}},
        "large": {"env": "GridWorld", "train": {"total_timesteps": 400}},
    }
    several["evaluation"] = {"seeds": 16, "contenders": ["squared"]}
    (tmp_path / "tasks.yaml").write_text(json.dumps(several))  # YAML 1.2 contains JSON
    argv = [sys.executable, "-m", "metaevo", "judge", "--slot", "value_loss", "--tasks",
            "tasks.yaml", "--state", "state", "--batch", "1"]  # fmt: skip
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, cwd=tmp_path, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        answers = []
        for line in (b'{"expression": "error", "name": "a"}\n', b"oops\n"):
            process.stdin.write(line)
            process.stdin.flush()
            answers.append(json.loads(process.stdout.readline()))
        process.kill()
    assert [each["valid"] for each in answers] == [True, False]
    assert answers[0]["verdict"]["conclusion"] == "undecided"  # equal to the only baseline
    text = b'{"expression": "error", "name": "a"}\n{"expression": "error +'
    done = subprocess.run(argv, cwd=tmp_path, input=text, capture_output=True, check=True)
    first, second = map(json.loads, done.stdout.splitlines())
    assert first == answers[0]
    assert not second["valid"]
    assert b"Traceback" not in done.stderr
