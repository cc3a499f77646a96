"""Whatever stands in a run directory: it is used as it is meant, or refused in one line."""

import collections
import contextlib
import functools
import io
import json
import os
import shutil

import pytest

from metaevo.config import dump_yaml, load_yaml
from metaevo.runs import checkpoint
from tests.faults.run_fuzzing import (
    SCRIPTS,
    Watch,
    attempt,
    case,
    make,
    operations,
    prepared,
)

pytestmark = pytest.mark.long

EXAMPLES = int(os.environ.get("METAEVO_FUZZ_EXAMPLES", "5000"))
"""Of the long fuzzing; half of them are files of another kind."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A directory of every kind of run; what they compiled is kept as long as the module runs."""
    folder = tmp_path_factory.mktemp("made")
    with prepared():
        yield {name: make(name, folder / name) for name in SCRIPTS}


@pytest.fixture(scope="module")
def watch():
    return Watch()


def fuzz(made, place, watch, seeds, *, kinds):
    counts, failures = collections.Counter(), []
    for seed in seeds:
        try:
            _, results = case(seed, made, place, watch, kinds=kinds)
        except AssertionError as error:
            failures.append(str(error))
            continue
        for operation, result in results.items():
            counts[operation, "used" if result == "ok" else "refused"] += 1
    print(len(seeds), "cases:", dict(counts))
    assert not failures, f"{len(failures)} failures:\n" + "\n".join(failures[:60])
    return counts


@pytest.mark.parametrize("kinds", [False, True], ids=["contents", "kinds"])
def test_damaged_run_directories_are_used_or_refused(made, tmp_path, watch, kinds):
    counts = fuzz(made, tmp_path / "case", watch, range(60), kinds=kinds)
    for operation in ("resume", "compare_runs", "sync"):
        assert counts[operation, "used"], "if nothing is accepted, this shows nothing"
        assert counts[operation, "refused"]


@pytest.mark.parametrize("seed", [1037, 1143, 1179, 1031])
def test_found_once_refused_ever_after(seed, made, tmp_path, watch):
    """Links for folders were followed; a socket for a tracker's lock ended with code 1."""
    fuzz(made, tmp_path / "case", watch, [seed], kinds=True)


@pytest.mark.faults
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kinds", [False, True], ids=["contents", "kinds"])
def test_many_damaged_run_directories(made, tmp_path, watch, kinds):
    fuzz(made, tmp_path / "case", watch, range(1000, 1000 + EXAMPLES // 2), kinds=kinds)


# --- Records that do not cover the newest checkpoint ---------------------------------------------


def copy_of(made, name, place):
    run = shutil.copytree(made[name], place / name)
    (run / "report.html").unlink()
    return run


def resume(name, run):
    """Return the exit code and what was said."""
    stderr = io.StringIO()
    with contextlib.redirect_stderr(stderr):
        try:
            code = SCRIPTS[name](["--resume", "--run-dir", str(run)])
        except SystemExit as end:
            code = end.code
    return code, stderr.getvalue()


def records(run):
    found = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [{key: value for key, value in each.items() if key != "seconds"} for each in found]


def edit_lines(run, edit):
    path = run / "metrics.jsonl"
    path.write_text("".join(edit(path.read_text().splitlines(keepends=True))))


LOST = {
    "the last one": (lambda lines: lines[:5], 5),
    "one before the newest checkpoint": (lambda lines: [*lines[:4], *lines[5:]], 4),
    "none, but one is there twice": (lambda lines: [*lines[:5], *lines[4:]], 5),
    "none, but two are swapped": (lambda lines: [*lines[:4], lines[5], lines[4]], 4),
}


@pytest.mark.parametrize("lost", LOST)
@pytest.mark.parametrize(("name", "kind"), [("evolve", "generation"), ("train", "update")])
def test_it_goes_back_to_what_the_records_cover(name, kind, lost, made, tmp_path):
    run = copy_of(made, name, tmp_path)
    edit, first = LOST[lost]
    edit_lines(run, edit)
    code, said = resume(name, run)
    back = first if name == "train" else 4
    assert code == 0
    assert f"has no {kind} {first} in its place; going back from checkpoint 6 to {back}" in said
    assert records(run) == records(made[name])
    (state,), (undisturbed,) = (path.glob("checkpoints/000006/*.npz") for path in (run, made[name]))
    assert state.read_bytes() == undisturbed.read_bytes()


@pytest.mark.parametrize("left", [None, 0, 1])
@pytest.mark.parametrize("name", ["evolve", "train"])
def test_without_a_checkpoint_that_the_records_cover_it_is_refused(name, left, made, tmp_path):
    run = copy_of(made, name, tmp_path)
    if left is None:
        (run / "metrics.jsonl").unlink()
    else:
        edit_lines(run, lambda lines: lines[:left])
    before = sorted(run.rglob("*"))
    code, said = resume(name, run)
    assert code == 2
    (line,) = [each for each in said.splitlines() if "error" in each]
    assert line.startswith(f"error: {run / 'metrics.jsonl'}: has no ")
    assert f" {left or 0} in its place, and no checkpoint from before it can be used" in line
    assert {path for path in before if path.suffix != ".yaml"} <= set(run.rglob("*"))


@pytest.mark.parametrize("edit", [lambda lines: lines[1:], lambda lines: [lines[0], *lines]])
@pytest.mark.parametrize("name", ["sweep", "pbt"])
def test_a_sweep_logs_every_trial_once(name, edit, made, tmp_path):
    run = copy_of(made, name, tmp_path)
    edit_lines(run, edit)
    assert resume(name, run)[0] == 0
    of = lambda path: sorted(each["trial"] for each in records(path) if each["kind"] == "trial")  # noqa: E731
    assert of(run) == of(made[name]) == [0, 1, 2, 3]
    frames = [each["frames"] for each in records(run) if each["kind"] == "trial"]
    assert max(frames) == max(each["frames"] for each in records(made[name])[:4])


# --- Contents that are none ----------------------------------------------------------------------


def in_yaml(*path, value):
    def edit(run):
        content = load_yaml(run / "config.yaml")
        *sections, key = path
        inner = functools.reduce(dict.__getitem__, sections, content)
        inner.pop(key) if value is None else inner.__setitem__(key, value)
        (run / "config.yaml").write_text(dump_yaml(content))

    return edit


def in_record(place, **changes):
    def edit(run):
        lines = (run / "metrics.jsonl").read_text().splitlines()
        record = json.loads(lines[place]) | changes
        lines[place] = json.dumps({k: v for k, v in record.items() if v != "gone"})
        (run / "metrics.jsonl").write_text("\n".join(lines) + "\n")

    return edit


def as_file(name, text):
    return lambda run: (run / name).write_text(text)


CONTENTS = [
    *(("evolve", "resume", in_yaml("resolved", "chunk_size", value=value), "resolved.chunk_size")
      for value in ("abc", [1], 10**12)),
    *(("train", "resume", in_yaml("resolved", "chunk_size", value=value), "resolved.chunk_size")
      for value in (-4, 10**9)),
    ("evolve", "resume", in_yaml("resolved", "normalisation", value=5), "resolved.normalisation"),
    ("evolve", "resume", in_yaml("config", "evolution", value=None), "config.evolution"),
    ("train", "resume", in_yaml("config", "hyperparams", value=None), "config.hyperparams"),
    ("sweep", "resume", in_yaml("config", value=None), "config"),
    ("evolve", "resume", in_record(3, generation="7"), "metrics.jsonl, line 4: generation"),
    ("train", "compare_runs", in_record(3, update=None), "metrics.jsonl, line 4"),
    ("evolve", "resume", in_record(1, fitness_mean="much"), "line 2: fitness_mean"),
    ("evolve", "compare_runs", in_record(1, frames="gone"), "line 2"),
    ("sweep", "compare_runs", as_file("evaluation.json", '{"variants": {}}'), "variants"),
    ("sweep", "compare_runs",
        as_file("evaluation.json", '{"variants": [{"name": "a", "scores": ["1"]}]}'), "scores"),
    ("sweep", "resume", as_file("confirmation.json", '{"key": [0, 2]}'), "confirmation.json"),
    ("pbt", "resume", lambda run: [
        (run / "study.journal").unlink(), (run / "metrics.jsonl").unlink(),
        (run / "pbt_members.json").write_text("[]")], "pbt_members.json"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "operation", "edit", "key"), CONTENTS)
def test_what_does_not_fit_is_named(name, operation, edit, key, made, tmp_path):
    run = copy_of(made, name, tmp_path)
    edit(run)
    assert key in attempt(operations(name, run)[operation], code=2)


def test_a_checkpoint_that_says_not_enough_is_passed_over(made, tmp_path):
    run = copy_of(made, "evolve", tmp_path)
    path = run / "checkpoints" / "000006" / "metadata.json"
    content = json.loads(path.read_text())
    del content["metadata"]["seconds"], content["sha256_of_metadata"]
    content["sha256_of_metadata"] = checkpoint._digest(content)
    path.write_text(json.dumps(content))
    with pytest.warns(match="000006 is not usable: metadata.json: has no 'seconds'"):
        assert resume("evolve", run)[0] == 0
    assert records(run) == records(made["evolve"])
