"""Several processes: their flags and clusters. tests/experiments starts real ones."""

import signal
import socket
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from metaevo.config import ConfigError
from metaevo.evolution import hosts
from metaevo.evolution.blocks import in_lockstep

FLAGS = ["--coordinator", "node1:1234", "--processes", "4", "--process", "3"]
SLURM = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_NODELIST": "node[1-2]",
    "SLURM_NTASKS": "4",
    "SLURM_PROCID": "2",
    "SLURM_LOCALID": "0",
}


def wanted(*argv, **environ):
    return hosts._wanted(argv, environ)


@pytest.mark.smoke
def test_a_single_process_connects_with_nobody():
    assert wanted() is None
    assert wanted("--generations", "3", "--resume") is None
    assert wanted("--heartbeat", "5") is None
    assert wanted("--help", *FLAGS) is None


def test_flags_and_variables_say_the_same():
    expected = {
        "coordinator_address": "node1:1234",
        "num_processes": 4,
        "process_id": 3,
        "cluster_detection_method": "deactivate",
        "heartbeat_timeout_seconds": 100,
    }
    assert wanted(*FLAGS, "--generations", "3") == expected
    variables = dict(zip(hosts.ENVIRONMENT.values(), FLAGS[1::2], strict=True))
    assert wanted(**variables) == expected
    assert wanted("--process", "1", **variables)["process_id"] == 1
    assert wanted("--heartbeat", "7", **SLURM, **variables) == {
        **expected,
        "heartbeat_timeout_seconds": 7,
    }


def test_a_step_of_several_tasks_is_found():
    found = {"heartbeat_timeout_seconds": 100}
    assert wanted(**SLURM) == found
    assert wanted("--distributed") == found
    assert wanted(OMPI_MCA_orte_hnp_uri="1.0;tcp://10.0.0.1:9", OMPI_COMM_WORLD_SIZE="2") == found


@pytest.mark.parametrize(
    "environ",
    [
        {**SLURM, "SLURM_STEP_NUM_TASKS": "1"},  # an interactive step in a job of four tasks
        {**SLURM, "SLURM_NTASKS": "1"},
        {name: value for name, value in SLURM.items() if name != "SLURM_STEP_NODELIST"},  # sbatch
        {"KUBERNETES_SERVICE_HOST": "10.0.0.1"},  # a pod of its own, as far as one can see
        {"OMPI_MCA_orte_hnp_uri": "1.0;tcp://10.0.0.1:9", "OMPI_COMM_WORLD_SIZE": "1"},
    ],
)
def test_what_is_no_step_of_several_tasks_does_not_wait_for_others(environ):
    assert wanted(**environ) is None


def test_tasks_can_be_kept_apart():
    assert wanted("--processes", "1", **SLURM) is None
    assert wanted(JAX_NUM_PROCESSES="1", **SLURM) is None


@pytest.mark.parametrize(
    ("argv", "key"),
    [
        (FLAGS[:4], "--process"),
        (["--coordinator", "node1", *FLAGS[2:]], "--coordinator node1"),
        ([*FLAGS[:2], "--processes", "0", "--process", "0"], "--processes 0"),
        ([*FLAGS[:4], "--process", "4"], "--process 4"),
    ],
)
def test_incomplete_or_impossible_flags_are_refused(argv, key):
    with pytest.raises(ConfigError, match=key):
        hosts._wanted(argv, {})


def test_a_first_process_that_never_comes_is_one_clear_error(monkeypatch, capsys):
    with socket.socket() as unused:
        unused.bind(("localhost", 0))  # and nobody listens
        address = f"localhost:{unused.getsockname()[1]}"
        monkeypatch.setattr(hosts, "CONNECT_SECONDS", 0.3)
        with pytest.raises(SystemExit, match="2"):
            hosts.join(["--coordinator", address, "--processes", "2", "--process", "1"])
    _, error = capsys.readouterr()
    assert error.startswith(f"error: nobody listens at --coordinator {address}: ")
    assert error.count("\n") == 1
    assert not hosts._connected


def test_alone_everything_is_ones_own():
    def refuse():
        raise ConfigError("no")

    assert hosts.is_first()
    assert hosts.gather({"a": (1,)}) == [{"a": (1,)}]
    assert hosts.of_first(lambda: 3) == hosts.agreed(lambda: 3) == 3
    tree = {"x": np.arange(3)}
    assert hosts.share(tree) is tree
    for run in (hosts.of_first, hosts.agreed):
        with pytest.raises(ConfigError, match=r"^no$"):
            run(refuse)
    with pytest.raises(ZeroDivisionError), hosts.together():
        1 / 0  # noqa: B018


@pytest.fixture
def others(monkeypatch):
    """Two more processes, which answer with what is put into the list; this one is the first."""
    answers, told = [None, None], []

    def gather(message):
        told.append(message)
        return [message, *answers]

    monkeypatch.setattr(hosts, "_connected", True)
    monkeypatch.setattr(hosts, "gather", gather)
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

    monkeypatch.setattr(hosts.os, "_exit", end)
    with pytest.raises(SystemExit, match="1"), hosts.together():
        raise error
    said = capfd.readouterr().err
    assert ("Traceback" in said) == traceback
    last = said.splitlines()[-1]
    assert last.startswith("error: process 0 cannot go on: ")
    assert str(error).splitlines()[0] in last


def test_an_error_in_one_process_is_raised_in_all(others):
    answers, told = others

    def refuse():
        raise ConfigError("no")

    assert hosts.agreed(lambda: 3) == 3
    with pytest.raises(ConfigError, match=r"^no$"):
        hosts.agreed(refuse)
    assert told == [None, "no"]  # the others hear of it
    answers[1] = "theirs"
    for run in (hosts.agreed, hosts.of_first):
        with pytest.raises(ConfigError, match=r"^theirs$"):
            run(lambda: 3)


def test_all_processes_do_what_the_first_proposes_until_one_is_to_stop(others):
    answers, _ = others
    stop = SimpleNamespace(requested=None)
    answers[:] = [5, None], [7, None]

    def next_length():
        return in_lockstep(3, stop)

    assert next_length() == 3
    assert stop.requested is None
    answers[:] = [5, None], [7, signal.SIGTERM]
    assert next_length() == 0
    assert stop.requested == signal.SIGTERM
    stop.requested, answers[:] = signal.SIGINT, ([5, None], [7, None])
    assert next_length() == 0
    assert stop.requested == signal.SIGINT
