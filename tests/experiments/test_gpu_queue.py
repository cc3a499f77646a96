import json

import pytest

from experiments import gpu_queue
from experiments.gpu_queue import JOBS, Job, main
from metaevo.commands import evolve

SCRIPT = """
import signal, sys, time, pathlib
path = pathlib.Path(sys.argv[1])
signal.signal(signal.SIGTERM, lambda *_: (path.write_text("saved"), sys.exit(1)))
path.exists() or time.sleep(300)
"""


@pytest.fixture
def queue(tmp_path, monkeypatch):
    (tmp_path / "job.py").write_text(SCRIPT)
    jobs = {"broken": Job(0, "-c '1 / 0'"), "long": Job(0, f"{tmp_path / 'job.py'} {{to}}/state")}
    monkeypatch.setattr(gpu_queue, "JOBS", jobs)
    return tmp_path / "results"


def lease(folder, seconds, *flags):
    minutes = (seconds + gpu_queue.GRACE) / 60
    return main(["--tiny", "--to", str(folder), "--minutes", str(minutes), *flags])


def test_leases_continue_one_another(queue, capsys):
    assert lease(queue, 12, "--only", "long") == 0
    assert "goes on in the next lease" in capsys.readouterr().out
    assert (queue / "state").read_text() == "saved"
    assert lease(queue, 30) == 1
    out = capsys.readouterr().out
    assert "failed (1)" in out
    assert "ZeroDivisionError" in (queue / "broken.log").read_text()
    assert "commit" in json.loads((queue / "long.done").read_text())
    lease(queue, 30, "--only", "long")
    assert "has its result" in capsys.readouterr().out


def test_tiny_results_stand_apart():
    assert gpu_queue.parse(["--tiny"]).to != gpu_queue.parse([]).to


def test_what_cannot_run_is_refused(queue, refused):
    assert "no GPU" in refused(main, ["--to", str(queue)])
    assert "broken" in refused(main, ["--only", "foo"])
    assert lease(queue, -1) == 0
    assert not list(queue.glob("*.done"))


@pytest.mark.slow
def test_an_evolution_goes_on(tmp_path, monkeypatch, capsys):
    flags = "--quick --comparison none --generations 1000000"
    job = Job(0, f"-m metaevo evolve --run-dir {{to}}/evolution {flags}")
    monkeypatch.setattr(gpu_queue, "JOBS", {"evolution": job})
    done = []
    for _ in range(2):
        lease(tmp_path, 40)
        assert "goes on in the next lease" in capsys.readouterr().out
        done.append(len((tmp_path / "evolution" / "metrics.jsonl").read_text().splitlines()))
    assert 0 < done[0] < done[1]


@pytest.mark.long
def test_the_first_ratio_in_tiny_sizes(tmp_path):
    assert lease(tmp_path, 300, "--only", "first_ratio") == 0
    (table,) = json.loads((tmp_path / "first_ratio.json").read_text())["tables"]
    assert all(float(row[-1]) < 1e-5 for row in table["rows"])


@pytest.mark.long
def test_the_flags_of_the_evolution_are_known(tmp_path):
    words = JOBS["evolution"].words("evolution", tmp_path, tiny=False)
    evolve.main([*words[3:], "--dry-run"])
