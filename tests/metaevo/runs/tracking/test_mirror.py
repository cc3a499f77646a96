"""The mirror against services that fail at any time: everything arrives, and only once."""

import itertools
from collections import Counter

import pytest

from metaevo.runs.tracking import RunTracker
from metaevo.runs.tracking.destination import Destination
from metaevo.runs.tracking.mirror import Mirror
from metaevo.runs.tracking.state import load_state
from tests.metaevo.runs.tracking.runs import CHILDREN, RUN_ID, finish_run, log_generations, make_run

DESTINATION = Destination("wandb", "online", "p")
KEYS = [("generation", index) for index in range(3)] + [("evaluation", 0), ("evaluation", 1)]


class Breaks(Exception):  # noqa: N818
    pass


class FakeService:
    """Keeps what it is given; the call number `breaks` raises before it has done anything.

    One that does not confirm keeps in mind what an open run was given, and may lose the end of it.
    """

    def __init__(self, *, confirms=True, counts_rows=False, breaks=None):
        self.confirms, self.counts_rows, self.breaks = confirms, counts_rows, breaks
        self.rows, self.artifacts, self.about, self.status = {}, Counter(), {}, {}
        self.calls = 0

    def call(self):
        self.calls += 1
        if self.calls == self.breaks:
            raise Breaks

    def open(self, about, state, parent):
        self.call()
        self.about[about.id] = (about, parent)
        return FakeRun(self, about.id)


class FakeRun:
    segment = None

    def __init__(self, service, run_id):
        self.service, self.id, self.confirms = service, run_id, service.confirms
        self.stored = service.rows.setdefault(run_id, [])
        self.rows = len(self.stored) if service.counts_rows else None

    def log(self, rows, first):
        self.service.call()
        if self.confirms:  # and, as MLflow does, stores the same row once
            rows = [row for row in rows if row not in self.stored]
        else:
            assert first == len(self.stored)
        self.stored += rows

    def log_artifact(self, path, name):
        self.service.call()
        assert path.exists()
        self.service.artifacts[name] += 1

    def finish(self, status):
        self.service.call()
        self.service.status[self.id] = status


def mirror_of(run, service):
    return Mirror(run, DESTINATION, service, results=False)


def send(run, service):
    mirror = mirror_of(run, service)
    mirror.catch_up()
    mirror.finish()
    return mirror


def keys_of(service, run_id=RUN_ID):
    return [(row.kind, row.step) for row in service.rows[run_id]]


@pytest.fixture
def finished(tmp_path):
    run = make_run(tmp_path / "run")
    finish_run(run)
    return run


def test_everything_arrives_with_what_it_belongs_to(finished):
    service = FakeService()
    assert send(finished, service).is_up_to_date
    assert keys_of(service) == KEYS
    assert service.rows[RUN_ID][1].values == {"frames": 8, "seconds": 0.5, "fitness_mean": 1.5}
    assert keys_of(service, f"{RUN_ID}-trial_1") == [("update", 0), ("update", 1)]
    assert service.artifacts == {"figures": 1, "report.html": 1}
    assert set(service.status.values()) == {"finished"}
    about, parent = service.about[RUN_ID]
    assert (about.name, about.group, about.job_type, parent) == ("run", "run", "evolution", None)
    assert about.config["a"] == {"b": 1}
    assert about.environment["devices"] == ["a device"]
    about, parent = service.about[f"{RUN_ID}-trial_1"]
    assert (about.name, about.group, about.job_type) == ("run/trial_1", "run", "trial")
    assert (about.config["rate"], about.config["a"], parent) == (0.2, {"b": 1}, RUN_ID)


def test_a_second_time_nothing_is_sent(finished):
    service = FakeService()
    send(finished, service)
    assert mirror_of(finished, service).is_up_to_date
    before = service.calls
    mirror_of(finished, service).finish()
    assert service.calls == before


@pytest.mark.parametrize("kind", ["confirms", "counts its rows"])
def test_whichever_call_fails_each_row_arrives_once(tmp_path, kind):
    """What breaks is taken up by another mirror, which only knows what the state says."""
    for number in itertools.count(1):
        run = make_run(tmp_path / str(number))
        finish_run(run)
        confirms = kind == "confirms"
        service = FakeService(confirms=confirms, counts_rows=not confirms, breaks=number)
        try:
            send(run, service)
        except Breaks:
            send(run, service)
        else:
            assert number > 8  # every call has failed once
            break
        assert keys_of(service) == KEYS
        for name in CHILDREN:
            assert keys_of(service, f"{RUN_ID}-{name}") == [("update", 0), ("update", 1)]
        assert all(count == 1 or not confirms for count in service.artifacts.values())
        assert mirror_of(run, service).is_up_to_date


def test_it_goes_on_while_the_run_does(tmp_path):
    run, service = make_run(tmp_path / "run", 2), FakeService()
    mirror = mirror_of(run, service)
    mirror.catch_up()
    assert keys_of(service) == KEYS[:2]
    log_generations(run, [2])
    finish_run(run)
    mirror.catch_up()
    mirror.finish()
    assert keys_of(service) == KEYS


@pytest.mark.parametrize(
    ("confirms", "breaks", "again"), [(True, 3, True), (False, 1, True), (False, 3, False)]
)
def test_a_service_that_fails_is_tried_again_if_nothing_can_be_sent_twice(
    finished, confirms, breaks, again
):
    service = FakeService(confirms=confirms, breaks=breaks)
    mirror = mirror_of(finished, service)
    with pytest.raises(Breaks):
        mirror.catch_up()
    assert mirror.begin_again() == again
    if again:
        mirror.catch_up()
        assert keys_of(service) == KEYS
        assert service.artifacts == {"figures": 1, "report.html": 1}


def test_a_resumed_run_sends_what_is_new_and_its_new_comparison(finished):
    """The generations after its checkpoint are computed again: they are there already."""
    service = FakeService()
    send(finished, service)
    finished.report_path.unlink()
    finished.truncate_metrics("generation", 1)
    finished.truncate_metrics("evaluation", 0)
    log_generations(finished, [1, 2, 3])
    send(finished, service)
    assert service.status[RUN_ID] == "stopped"
    finished.append_metrics({"kind": "evaluation", "evaluation": 0, "seconds": 9.0, "iqm": 4.0})
    finished.report_path.write_text("<html>again</html>")
    send(finished, service)
    assert keys_of(service) == [*KEYS, ("generation", 3), ("evaluation", 0)]
    assert service.rows[RUN_ID][-1].values["iqm"] == 4.0
    assert service.artifacts == {"figures": 1, "report.html": 2}
    assert service.status[RUN_ID] == "finished"
    assert load_state(finished.path, DESTINATION.key).rows == 7


def test_a_thousand_nested_runs_are_a_line_each(tmp_path):
    run = make_run(tmp_path / "run", 0)
    tracker = RunTracker(run, [], job_type="sweep")
    for number in range(1000):
        child = tracker.child(f"trial_{number:04d}", "trial", {})
        child.log({"kind": "trial", "trial": number, "value": 1.0})
        child.finish()
    assert len(run.tracked_path.read_bytes().splitlines()) == 1001
