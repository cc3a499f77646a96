"""The table of rules: what is measured, resumed and refused; their package is a stand-in."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from experiments.discogen import cells
from experiments.discogen.__main__ import main
from tests.processes import ROOT

STAND_IN = """#!/usr/bin/env python3
import json, os, pathlib, sys, time
if sys.argv[1] == "-c":
    print(pathlib.Path("version").read_text())
    sys.exit()
_, harness, file, *folder = sys.argv
cell = json.loads(pathlib.Path(file).read_text())
with open("calls", "a") as log:
    print(cell["rule"], cell["environment"], *folder, file=log)
if pathlib.Path("wait").exists():
    pathlib.Path("pid").write_text(str(os.getpid()))
    time.sleep(60)
stop = pathlib.Path("stop").exists()
for rate in range(len(cell["rates"])):
    for seed in range(1 if stop else cell["seeds"]):
        cell["evaluation"][rate][seed] = cell["training"][rate][seed] = 10.0 * rate + seed
pathlib.Path(file).write_text(json.dumps(cell))
sys.exit(stop)
"""
LINE = "run --rules ppo apa --envs Breakout --seeds 2 --rates 2 --steps 1e6 --to table"


@pytest.fixture(autouse=True)
def stand_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    python = Path(".venv-discogen/bin/python")
    python.parent.mkdir(parents=True)
    python.write_text(STAND_IN)
    python.chmod(0o755)
    Path("version").write_text(cells.VERSION)


def error_of(line):
    with pytest.raises(SystemExit) as error:
        main(line.split())
    message = str(error.value.code)
    assert message.startswith("error: ")
    assert "\n" not in message
    return message


def test_an_interrupted_table_goes_on_and_a_finished_cell_is_kept(capsys):
    Path("stop").touch()
    assert "failed, see above: table/ppo.Breakout.json" in error_of(LINE)
    Path("stop").unlink()
    main(LINE.split())
    main(LINE.split())
    calls = Path("calls").read_text().split("\n")
    assert calls == 2 * ["ppo Breakout", "apa Breakout table/apa"] + [""]
    cell = json.loads(Path("table/apa.Breakout.json").read_text())
    assert cell["rates"] == [1e-3, 1e-2]
    assert cell["evaluation"] == [[0.0, 1.0], [10.0, 11.0]]
    score = "10.5 [10.0, 11.0]"
    row = f"| Breakout | `apa` | {score} | 0.0100 | {score} | {score} |"
    assert row in Path("table/table.md").read_text()
    assert row in capsys.readouterr().out
    assert os.listdir("table/apa") == ["loss.py"]


def test_a_stopped_run_leaves_no_process_behind():
    Path("wait").touch()
    line = [sys.executable, "-m", "experiments.discogen", *LINE.split()]
    process = subprocess.Popen(line, env={**os.environ, "PYTHONPATH": str(ROOT)})
    deadline = time.monotonic() + 60
    while not (Path("pid").exists() and Path("pid").read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.terminate()
    assert process.wait(60) == 143
    child = Path("/proc", Path("pid").read_text())
    while child.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not child.exists()


def test_a_rate_is_chosen_without_the_seed_that_it_is_judged_on():
    scores = np.array([[0.0, 9.0, 1.0], [4.0, 4.0, 4.0]])
    assert cells.chosen_by_others(scores).tolist() == [0.0, 4.0, 1.0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("--envs Pong", "--envs Pong: must be one of Breakout, Freeway, Asterix, SpaceInvaders"),
        ("--seeds 0", "--seeds 0: must be at least 1"),
        ("--steps nan", "--steps nan: must be at least 8192"),
        ("--rules linear", "linear fills schedule"),
        ("--rules nothing", "nothing: must be a run's directory, zoo:NAME"),
    ],
)
def test_bad_input_is_one_line(change, words):
    assert words in error_of(f"{LINE} {change}")
    assert not Path("calls").exists()


def test_another_version_a_missing_package_and_other_sizes_are_refused():
    main(LINE.split())
    assert "has seeds = 2: must be 3" in error_of(f"{LINE} --seeds 3")
    Path("table/apa/loss.py").write_text("")
    assert "apa is not the rule of table/apa" in error_of(LINE)
    Path("version").write_text("1.2.2")
    assert "has version 1.2.2, must be 1.3.0; to install it: make discogen" in error_of(LINE)
    Path(".venv-discogen/bin/python").unlink()
    assert "discogen is missing, must be 1.3.0" in error_of(LINE)
