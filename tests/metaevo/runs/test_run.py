import json
import signal
from dataclasses import dataclass, field

import numpy as np
import pytest

from metaevo.config import ConfigError
from metaevo.runs.resume import restore
from metaevo.runs.run import HasRun, Kind, RecordConfig, open_run

KIND = Kind("work", "work", "update", ("run.keep",))


@dataclass(frozen=True)
class Settings(HasRun):
    rate: float = 0.1
    run: RecordConfig = field(default_factory=RecordConfig)


def opened(path, *, resume=False, **settings):
    return open_run(KIND, Settings(**settings), run_dir=path, resume=resume)


def update(index):
    return {"kind": "update", "update": index, "frames": index}


def begin(path, updates):
    """A run that saves after every second update, and is stopped after some."""
    with opened(path) as run:
        run.start({"measured": 3})
        for index in range(updates):
            if index % 2 == 0:
                run.save(index, np.full(2, index), 1.5)
            run.log(update(index))
        signal.raise_signal(signal.SIGTERM)
        run.stop.check()
    return run


def test_a_stopped_run_continues_from_its_last_checkpoint_with_all_records(tmp_path, capsys):
    path = tmp_path / "run"
    assert begin(path, 5).stop.exit_code == 143
    assert f"stopped; continue with: --resume --run-dir {path}" in capsys.readouterr().err
    with opened(path, resume=True) as run:
        assert run.resolved["measured"] == 3
        tree, done, seconds = restore(run, np.zeros(2, int))
        assert (tree.tolist(), done, seconds) == ([4, 4], 4, 1.5)
        assert run.directory.read_metrics("update") == [update(index) for index in range(4)]
    lines = [json.dumps(update(index)) for index in (0, 1, 3)]  # one was lost
    run.directory.metrics_path.write_text("\n".join(lines) + "\n")
    with opened(path, resume=True) as run:
        assert restore(run, np.zeros(2, int))[1] == 2
    assert "going back to an earlier checkpoint" in capsys.readouterr().err
    with pytest.raises(ConfigError, match=r"other settings \(rate: 0.1 -> 0.2\)"):
        opened(path, resume=True, rate=0.2).__enter__()


@pytest.mark.parametrize("had_files", [False, True])
def test_a_run_that_fails_before_its_first_record_can_be_tried_again(tmp_path, had_files):
    path = tmp_path / "run"
    if had_files:
        path.mkdir()
        (path / "mine").touch()

    def fail(records):
        with opened(path) as run:
            run.start({})
            run.save(0, np.zeros(2), 0.0)
            for index in range(records):
                run.log(update(index))
            raise KeyError("while tracing")

    for records in (0, 0, 1):
        with pytest.raises(KeyError):
            fail(records)
        assert path.exists() == (had_files or records == 1)
        assert (path / "mine").exists() == had_files
    with pytest.raises(ConfigError, match="already holds a run"):
        opened(path).__enter__()
    with opened(path, resume=True) as run:
        assert restore(run, np.zeros(2))[1] == 0
