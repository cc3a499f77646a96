"""What is found in a run's files, however they are written, cut short and replaced."""

import json

import pytest

from metaevo.config import ConfigError
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.schema import check_record
from metaevo.runs.tracking.backlog import Tail, digest_of, missing
from metaevo.runs.tracking.state import State
from tests.metaevo.runs.tracking.runs import CHILDREN, finish_run, log_generations, make_run


def test_the_tail_yields_each_line_once_when_it_is_complete(tmp_path):
    path = tmp_path / "lines"
    tail = Tail(path, lambda line, _: line)
    assert list(tail.read()) == []
    text = "".join(json.dumps({"n": n, "text": "ü\n"}) + "\n" for n in range(3)).encode()
    seen = []
    with path.open("ab") as file:
        for byte in text:  # whatever a writer has got out so far
            file.write(bytes([byte]))
            file.flush()
            seen += [line["n"] for line in tail.read()]
    assert seen == [0, 1, 2]


def test_the_tail_starts_again_in_a_replaced_file(tmp_path):
    run = make_run(tmp_path / "run", 5)
    tail = Tail(run.metrics_path, check_record)
    assert [line["generation"] for line in tail.read()] == [0, 1, 2, 3, 4]
    run.truncate_metrics("generation", 3)
    log_generations(run, [3, 4, 5])  # the same again, and one more
    assert [line["generation"] for line in tail.read()] == [5]
    run.truncate_metrics("generation", 3)
    assert [line["generation"] for line in tail.read()] == [0, 1, 2]  # shorter than before
    run.truncate_metrics("generation", 2)
    log_generations(run, [7, 8])  # longer
    assert [line["generation"] for line in tail.read()] == [0, 1, 7, 8]
    assert list(tail.read()) == []


def test_the_tail_goes_on_after_a_line_that_was_cut_short(tmp_path):
    run = make_run(tmp_path / "run", 2)
    with run.metrics_path.open("ab") as file:
        file.write(b'{"kind": "gen')
    tail = Tail(run.metrics_path, check_record)
    assert len(list(tail.read())) == 2
    log_generations(run, [2])
    assert [line["generation"] for line in tail.read()] == [2]


def test_a_damaged_line_is_refused(tmp_path):
    run = make_run(tmp_path / "run", 0)
    run.metrics_path.write_text("{}\nnonsense\n")
    with pytest.raises(ConfigError, match=r"metrics\.jsonl"):
        missing(run, State())


def test_everything_is_missing_at_first(tmp_path):
    run = make_run(tmp_path / "run")
    assert str(missing(run, State())) == "3 records"
    finish_run(run)
    backlog = missing(run, State())
    assert str(backlog) == "5 records, 2 nested runs and 2 artifacts"
    assert {name: each.config["rate"] for name, each in backlog.children.items()} == CHILDREN
    assert list(backlog.artifacts) == ["figures", "report.html"]
    run.evaluation_path.write_text("{}")
    assert "evaluation.json" in missing(run, State(), results=True).artifacts


def test_records_that_come_out_of_order_are_all_found(tmp_path):
    run = make_run(tmp_path / "run", 0)
    log_generations(run, [4, 2, 9])
    assert str(missing(run, State(sent={"generation": [[3, 4]]}))) == "2 records"


def test_a_digest_tells_contents_and_names_apart(tmp_path):
    folders = []
    for number, (name, content) in enumerate([("a", b"1"), ("a", b"2"), ("b", b"1"), ("a", b"1")]):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / name).write_bytes(content)
        folders.append(digest_of(folder))
    assert folders[0] == folders[3]
    assert len(set(folders)) == 3


def test_a_first_line_of_an_old_run_may_be_absent(tmp_path):
    run = RunDirectory(tmp_path)
    assert str(missing(run, State())) == "nothing"
