"""Several processes: their flags and clusters. tests/experiments starts real ones."""

import re
import signal

import jax
import numpy as np
import pytest

from metaevo.commands import processes
from metaevo.config import ConfigError
from metaevo.evolution import devices

FLAGS = ["--coordinator", "node1:1234", "--processes", "4", "--process", "3"]
SLURM = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_NODELIST": "node[1-2]",
    "SLURM_NTASKS": "4",
    "SLURM_PROCID": "2",
    "SLURM_LOCALID": "0",
}
VARIABLES = {
    "JAX_COORDINATOR_ADDRESS": "node1:1234",
    "JAX_NUM_PROCESSES": "4",
    "JAX_PROCESS_ID": "3",
}
CONNECTED = {
    "coordinator_address": "node1:1234",
    "num_processes": 4,
    "process_id": 3,
    "cluster_detection_method": "deactivate",
}
OPEN_MPI = {"OMPI_MCA_orte_hnp_uri": "1.0;tcp://10.0.0.1:9", "OMPI_COMM_WORLD_SIZE": "2"}
FOUND_BY_JAX = {}


@pytest.mark.parametrize(
    ("argv", "environ", "expected"),
    [
        ([], {}, None),
        (["--generations", "3", "--resume"], {}, None),
        (["--help", *FLAGS], {}, None),
        ([*FLAGS, "--generations", "3"], {}, CONNECTED),
        ([], VARIABLES, CONNECTED),
        (["--process", "1"], VARIABLES, CONNECTED | {"process_id": 1}),
        ([], SLURM | VARIABLES, CONNECTED),
        ([], SLURM, FOUND_BY_JAX),
        (["--distributed"], {}, FOUND_BY_JAX),
        ([], OPEN_MPI, FOUND_BY_JAX),
        # One task, as far as one can see: no others to wait for.
        ([], {**SLURM, "SLURM_STEP_NUM_TASKS": "1"}, None),  # interactive, in a job of four tasks
        ([], {**SLURM, "SLURM_NTASKS": "1"}, None),
        ([], {name: SLURM[name] for name in SLURM if name != "SLURM_STEP_NODELIST"}, None),  # batch
        ([], {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, None),
        ([], {**OPEN_MPI, "OMPI_COMM_WORLD_SIZE": "1"}, None),
        # Tasks that are kept apart.
        (["--processes", "1"], SLURM, None),
        ([], {**SLURM, "JAX_NUM_PROCESSES": "1"}, None),
    ],
)
def test_flags_variables_and_clusters(monkeypatch, argv, environ, expected):
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert processes.wanted(argv) == expected


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["--coordinator", "node1", *FLAGS[2:]], "--coordinator node1: must be HOST:PORT"),
        (FLAGS[2:], "--coordinator"),
        ([*FLAGS[:2], "--process", "1"], "--processes"),
        ([*FLAGS[:2], "--processes", "2", "--process", "2"], "--process 2"),
        (["--processes", "many"], "invalid int value: 'many'"),
    ],
)
def test_incomplete_or_impossible_flags_are_refused(argv, reason):
    with pytest.raises(ConfigError, match=re.escape(reason)):
        processes.wanted(argv)


def refuse():
    raise ConfigError("no")


def test_a_single_process_needs_no_communication():
    assert devices.is_first()
    assert devices.gather({"a": (1,)}) == [{"a": (1,)}]
    assert devices.broadcast_from_first(lambda: 3) == devices.raise_on_all(lambda: 3) == 3
    tree = {"x": np.arange(3)}
    assert devices.share(tree) is tree
    for run in (devices.broadcast_from_first, devices.raise_on_all):
        with pytest.raises(ConfigError, match=r"^no$"):
            run(refuse)
    with pytest.raises(ZeroDivisionError), processes.multi_process():
        1 / 0  # noqa: B018


@pytest.fixture
def others(monkeypatch):
    """Two more processes, which answer with what is put into the list; this one is the first."""
    answers, told = [None, None], []

    def gather(message):
        told.append(message)
        return [message, *answers]

    monkeypatch.setattr(jax.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(devices, "gather", gather)
    return answers, told


@pytest.mark.parametrize(
    ("error", "traceback"),
    [
        (ValueError("UNKNOWN: Gloo AllGather failed: Connection reset by peer\nmore"), False),
        (jax.errors.JaxRuntimeError("INTERNAL: the other process is gone"), False),
        (ValueError("a mistake of ours"), True),
    ],
)
def test_the_death_of_another_process_is_one_line(others, monkeypatch, capfd, error, traceback):
    def end(code):
        raise SystemExit(code)

    monkeypatch.setattr(processes.os, "_exit", end)
    with pytest.raises(SystemExit, match="1"), processes.multi_process():
        raise error
    said = capfd.readouterr().err
    assert ("Traceback" in said) == traceback
    last = said.splitlines()[-1]
    assert last.startswith("error: process 0 cannot go on: ")
    assert str(error).splitlines()[0] in last


def test_an_error_in_one_process_is_raised_in_all(others):
    answers, told = others
    assert devices.raise_on_all(lambda: 3) == 3
    with pytest.raises(ConfigError, match=r"^no$"):
        devices.raise_on_all(refuse)
    assert told == [None, "no"]  # the others hear of it
    answers[1] = "theirs"
    for run in (devices.raise_on_all, devices.broadcast_from_first):
        with pytest.raises(ConfigError, match=r"^theirs$"):
            run(lambda: 3)


def test_all_processes_agree(others):
    answers, _ = others
    answers[:] = 5, 7
    assert devices.agree(3) == 3
    answers[:] = None, None
    assert devices.agree_to_stop(None) is None
    answers[1] = signal.SIGTERM
    assert devices.agree_to_stop(None) == signal.SIGTERM
    assert devices.agree_to_stop(signal.SIGINT) == signal.SIGINT
