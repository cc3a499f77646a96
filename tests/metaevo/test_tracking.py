"""Tracking: a real offline wandb run, and trackers that fail."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from metaevo.tracking import Tracker, WandbTracker, start_wandb

RECORD = {"kind": "generation", "generation": 0, "fitness_mean": 1.5}


def start(mode: Any, directory: Path) -> Tracker:
    return start_wandb(
        mode, project="p", run_directory=directory, name="n", config={"a": {"b": 1}}, tags=["t"]
    )


def test_disabled_needs_no_wandb(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from metaevo.tracking import start_wandb\n"
        "tracker = start_wandb('disabled', project='p', run_directory=Path('.'), name='n')\n"
        "tracker.log({}); tracker.log_artifact(Path('none')); tracker.finish()\n"
        "assert 'wandb' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert list(tmp_path.iterdir()) == []


OFFLINE = """
import signal, sys
from pathlib import Path
import numpy as np
from metaevo.tracking import start_wandb
directory = Path(sys.argv[1])
handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
tracker = start_wandb(
    sys.argv[2], project="p", run_directory=directory, name="n", config={"a": {"b": 1}}
)
for index in range(2):
    tracker.log({
        "kind": "generation", "generation": index, "fitness_mean": np.float32(1.5) + index,
        "text": "x", "flag": True, "list": [1], "nothing": None,
    })
(directory / "figure.png").write_bytes(b"png")
tracker.log_artifact(directory / "figure.png")
tracker.finish()
tracker.log({"kind": "generation", "generation": 9})
assert handlers == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
"""


@pytest.mark.parametrize("mode", ["offline", "online"])
def test_an_offline_run_can_be_read_back(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked to be online without being logged in, it says so in one line and goes offline."""
    home, run = tmp_path / "home", tmp_path / "run"
    home.mkdir()
    run.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_DIR", "XDG_CONFIG_HOME", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE, str(run), mode],
        check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.stdout == ""
    warning = "warning: wandb did not start online, trying offline: "
    lines = done.stderr.splitlines()
    assert len(lines) == (mode == "online")
    assert all(line.startswith(warning) for line in lines)
    (path,) = (run / "wandb").glob("offline-run-*/*.wandb")
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(path)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    entries = [json.loads(line) for line in text.splitlines()]
    items = [each["history"]["item"] for each in entries if each["type"] == "history"]
    rows = [{k: v for k, v in item.items() if not k.startswith("_")} for item in items]
    assert rows == [
        {"generation/index": 0, "generation/fitness_mean": 1.5},
        {"generation/index": 1, "generation/fitness_mean": 2.5},
    ]
    axes = [each["metric"].get("step_metric") for each in entries if each["type"] == "metric"]
    assert axes == [None, "generation/index"]
    (head,) = (each["run"] for each in entries if each["type"] == "run")
    assert (head["display_name"], head["project"]) == ("n", "p")
    assert any(each["type"] == "artifact" for each in entries)


class FailingRun:
    """A wandb run whose method `broken` raises."""

    id = "x"

    def __init__(self, broken: str) -> None:
        self.calls: list[str] = []
        self.broken = broken

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **options: Any) -> None:
            self.calls.append(name)
            if name == self.broken:
                raise RuntimeError("server\nis gone")

        return call


@pytest.mark.parametrize("broken", ["define_metric", "log", "log_artifact", "finish"])
def test_a_failure_is_said_once_and_ends_the_tracking(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], broken: str
) -> None:
    run = FailingRun(broken)
    (tmp_path / "figure.png").touch()
    tracker = WandbTracker(run)
    for _ in range(2):
        tracker.log(RECORD)
        tracker.log_artifact(tmp_path / "figure.png")
    tracker.finish()
    tracker.finish()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: wandb could not ")
    assert line.endswith("tracking is off: server is gone")
    assert run.calls[-1] == broken
    assert run.calls.count(broken) == 1


def test_a_file_that_is_not_there_does_not_stop_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    WandbTracker(FailingRun("")).log_artifact(tmp_path / "none.png")
    assert "none.png" in capsys.readouterr().err


def test_only_numbers_are_logged() -> None:
    rows: list[Any] = []
    run = SimpleNamespace(log=rows.append, define_metric=lambda *_, **__: None)
    WandbTracker(run).log(
        RECORD | {"a": np.float32(2), "b": None, "c": "1", "d": [1], "e": True, "f": {"g": 1}}
    )
    assert rows == [{"generation/index": 0, "generation/fitness_mean": 1.5, "generation/a": 2.0}]


@pytest.mark.parametrize("mode", ["offline", "online"])
def test_a_wandb_that_cannot_start_does_not_stop_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], mode: str
) -> None:
    def init(**options: Any) -> None:
        raise OSError("no network")

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init, Settings=dict))
    tracker = start(mode, tmp_path)
    tracker.log(RECORD)
    tracker.finish()
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1] == "warning: wandb did not start offline, tracking is off: no network"
    assert len(lines) == 1 + (mode == "online")


def test_a_missing_wandb_does_not_stop_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    start("offline", tmp_path).log(RECORD)
    assert "tracking is off" in capsys.readouterr().err
