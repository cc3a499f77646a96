"""Which indices have been sent, and the file that remembers it."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metaevo.config import ConfigError
from metaevo.runs.tracking.destination import Destination, destinations
from metaevo.runs.tracking.state import STATE_FILE, State, add, has, load_state, locked, save_state


@given(st.lists(st.integers(0, 30)))
def test_stretches_are_the_set_of_what_was_added(indices):
    stretches = []
    for index in indices:
        add(stretches, index)
    assert [index for index in range(-1, 32) if has(stretches, index)] == sorted(set(indices))
    # As short as can be: sorted, and none touches the next.
    assert all(a[1] + 1 < b[0] for a, b in itertools.pairwise(stretches))


def test_destinations_do_not_overwrite_one_another(tmp_path):
    one, two = State(remote="1", sent={"trial": [[0, 3]]}), State(remote="2", rows=7)
    save_state(tmp_path, "one", one)
    save_state(tmp_path, "two", two)
    assert load_state(tmp_path, "one") == one
    assert load_state(tmp_path, "two") == two
    assert load_state(tmp_path, "three") == State()


@pytest.mark.parametrize("text", ["{", "[]", '{"key": 1}', '{"key": {"unknown": 1}}'])
def test_a_damaged_state_is_refused(tmp_path, text):
    (tmp_path / STATE_FILE).write_text(text)
    with pytest.raises(ConfigError, match=STATE_FILE):
        load_state(tmp_path, "key")


def test_the_lock_keeps_a_second_mirror_out(tmp_path):
    path = tmp_path / "lock"
    with locked(path), pytest.raises(BlockingIOError), locked(path, wait=False):
        pass
    with locked(path, wait=False):
        pass


def test_destinations_of_settings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert destinations("disabled", None, "p") == []
    database = Destination("mlflow", f"sqlite:///{tmp_path}/mlruns.db", "p")
    assert destinations("offline", "local", "p") == [Destination("wandb", "offline", "p"), database]
    assert destinations("disabled", "sqlite:///mlruns.db", "p") == [database]
    for text in ("maybe", "./mlruns", "file:///tmp/x", "ftp://x"):
        with pytest.raises(ConfigError, match="no tracking URI; allowed: local"):
            destinations("disabled", text, "p")


def test_a_password_is_neither_stored_nor_shown(tmp_path):
    destination = Destination("mlflow", "postgresql+psycopg://me:secret@host:1/db", "p")
    save_state(tmp_path, destination.key, State())
    assert "secret" not in (tmp_path / STATE_FILE).read_text() + destination.label
    assert json.loads((tmp_path / STATE_FILE).read_text())
    assert "me:***@host" in destination.label
