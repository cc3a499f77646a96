from pathlib import Path

import pytest

import metaevo
from metaevo.__main__ import main
from metaevo.commands.evolve import main as evolve

FILE = Path(__file__).parents[3] / "examples" / "throw.py"
NAME = f"{FILE}:Throw"
FLAGS = ["--evolution.chunk_size", "64", "--evolution.validation_seeds", "4", "--devices", "1"]


@pytest.mark.long
def test_the_command_evolves_and_judges_it(tmp_path):
    path = tmp_path / "run"
    flags = ["--wind", "2.0", "--generations", "40", "--evaluation.seeds", "32", *FLAGS]
    assert main(["evolve", "--problem", NAME, *flags, "--run-dir", str(path)]) == 0
    scores = metaevo.Scores.load(path / "scores.npz")
    assert scores.contenders == ("learned", "without wind")
    assert scores.verdict().word == "better"
    assert "m/s" in (path / "report.html").read_text()
    assert {"angle", "speed"} == set(metaevo.load(path))
    longer = ["--generations", "42", *FLAGS]
    assert main(["evolve", "--resume", "--run-dir", str(path), *longer]) == 0
    assert main(["evaluate", "--run-dir", str(path), "--wind", "3.0"]) == 0


@pytest.mark.parametrize(
    ("text", "flags", "words"),
    [
        ("", ["--problem", "throwing"], ["problem = 'throwing'", "FILE.py:NAME"]),
        ("class Own: pass", [], ["metaevo.MetaProblem"]),
        ("class Own(metaevo.MetaProblem): pass", [], ["does not define init"]),
        ("class Own(metaevo.MetaProblem):\n  def __init__(self, wind): pass", [], ["wind"]),
        ("@dataclass\nclass Own(metaevo.MetaProblem):\n  run: int = 1", [], ["field run"]),
        ("@dataclass\nclass Own(metaevo.MetaProblem):\n  wind: int", [], ["missing", "wind"]),
        ("", ["--problem", NAME, "--wnid", "3"], ["wnid", "did you mean", "wind"]),
    ],
)
def test_what_is_no_problem_is_refused(text, flags, words, tmp_path, refused):
    file = tmp_path / "own.py"
    file.write_text(f"from dataclasses import dataclass\nimport metaevo\n{text}\n")
    argv = [*(flags or ["--problem", f"{file}:Own"]), "--run-dir", str(tmp_path / "run")]
    error = refused(evolve, argv)
    assert all(word in error for word in words), error
    assert not (tmp_path / "run").exists()
