from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from metaevo.comparison import sources
from metaevo.comparison.recorded import RecordedRun
from metaevo.config import ConfigError
from metaevo.runs.run_directory import RunDirectory
from tests.metaevo.comparison.conftest import write_records
from tests.metaevo.judging.test_scores import judgement


def read(*names, notes=None) -> list[RecordedRun]:
    return sources.read_all(list(map(str, names)), [] if notes is None else notes)


def names(*given, notes=None) -> list[str]:
    return [Path(name).name for name in (run.name for run in read(*given, notes=notes))]


def test_a_training_has_a_curve_and_a_held_out_score_for_every_agent(make_run):
    path, notes = make_run("a", 100.0, seeds=3, seed=7), []
    (run,) = read(path, notes=notes)
    assert notes == []
    assert run.task == "CartPole-v1"
    curves = run.curves("mean_return")
    assert [curve.seed for curve in curves] == ["7/0", "7/1", "7/2"]
    records = RunDirectory(path).read_metrics("update")
    for index, curve in enumerate(curves):
        np.testing.assert_allclose(curve.y, [record["returns"][index] for record in records])
        # frames in the records are those of all three agents
        np.testing.assert_allclose(curve.x, 100 * np.arange(1, 11))
    assert [curve.seed for curve in run.curves("evaluation:greedy policy")] == ["7/0", "7/1", "7/2"]
    assert len(run.curves("entropy")) == 1  # the mean over the agents


def test_an_unfinished_run(make_run):
    path, notes = make_run("a", points=4, finished=False), []
    with path.joinpath("metrics.jsonl").open("a") as file:
        file.write('{"kind": "upd')  # a line that is being written
    (run,) = read(path, notes=notes)
    assert len(run.curves("mean_return")[0].y) == 4
    assert notes == [f"{path}: is not finished"]


def test_evolutions_and_sweeps_are_one_seed_each(tmp_path: Path):
    evolution = write_records(
        tmp_path / "seed_3",  # in a folder that is no run
        {"evolution": {"generations": 4}, "run": {"seed": 3}, "opponent": {"seed": 7}},
        "generation",
        [{"fitness_mean": 5.0, "fitness_of_mean": value} for value in (1.0, None)],
        {"learned": [1.0, None], "b": [2.0, 0.5]},
    )
    (run,) = read(evolution)
    assert (run.seed, run.default, run.axis) == ("3", "fitness_of_mean", "generation")
    for name, score in {"": 0.75, ":learned": 0.75, ":b": 1.25}.items():  # None: the worst of all
        (found,) = run.curves(f"evaluation{name}")
        assert (found.seed, found.score) == ("3/0", score)

    config = {"sweep": {"trials": 4}, "run": {"seed": 1}}
    records = [{"value": value} for value in (2.0, 1.0, None, 3.0)]
    (run,) = read(write_records(tmp_path / "s", config, "trial", records))
    assert (run.default, run.axis) == ("best_value", "trial")
    np.testing.assert_array_equal(run.curves("best_value")[0].y, [2, 2, 2, 3])


def test_each_of_several_evolutions_has_the_score_of_the_report(tmp_path: Path):
    names = "learned seed 3", "learned seed 4", "squared"
    tuned = judgement(gains=(0.0, 1.0, 0.0), groups=("learned", "learned", ""))
    scores = replace(tuned, contenders=names)
    outer = RunDirectory.create(tmp_path / "r", "x")
    outer.write_config({}, {})
    scores.save(outer.scores_path)
    for seed in (3, 4):
        write_records(outer.path / f"seed_{seed}", {"run": {"seed": seed}}, "generation", [{}])
    found = {run.seed: run.scores for run in read(outer.path)}
    for seed, own in found.items():
        value = scores.iqm(f"learned seed {seed}").value
        assert own == {"evaluation": [value], "evaluation:learned": [value]}


def test_names_globs_and_folders_mix_and_a_run_counts_once(make_run, tmp_path: Path):
    for name in ("deep/one/a", "deep/one/b", "c"):
        make_run(name, rate=name)
    RunDirectory.create(tmp_path / "c" / "transfer", "x").write_config({}, {})  # inside a run
    assert names(tmp_path / "deep", f"{tmp_path}/*", tmp_path / "c") == ["a", "b", "c"]


def test_repeated_seeds_count_once(make_run):
    """The same settings and the same seed: of the two runs the longer one counts."""
    paths, notes = [make_run("a", points=5), make_run("b"), make_run("c", seed=1)], []
    assert names(*paths, notes=notes) == ["b", "c"]
    assert any(f"{paths[0]}: left out" in note for note in notes)


@pytest.fixture
def online(monkeypatch: pytest.MonkeyPatch):
    """`online(*runs)` replaces the used part of wandb.Api, as documented."""

    def replace_api(*runs: tuple[str, str, dict[str, Any], list[dict[str, Any]]]) -> None:
        found = {
            f"me/project/{name}": SimpleNamespace(
                id=name, state=state, config=config, scan_history=lambda rows=rows: iter(rows)
            )
            for name, state, config, rows in runs
        }
        api = SimpleNamespace(runs=lambda path: iter(found.values()), run=found.__getitem__)
        monkeypatch.setattr("wandb.Api", lambda timeout: api)

    return replace_api


def test_online_runs_are_read_through_the_api(online):
    rows = [{"_step": i, "_runtime": 2.0 * i, "global_step": 10 * i, "charts/episodic_return": i}
            for i in range(3)]  # fmt: skip
    online(
        ("r1", "finished", {"seed": 1, "lr": 0.1, "agent": "dqn", "_wandb": {}}, rows),
        ("r2", "running", {"lr": 0.1}, rows[:2]),
        ("r3", "crashed", {}, []),
    )
    notes: list[str] = []
    run, running = read("wandb:me/project", notes=notes)
    prefix = "wandb:me/project"
    assert notes == [
        f"{prefix}/r2: is not finished", f"{prefix}/r3: left out, because it has no records yet",
    ]  # fmt: skip
    assert (run.seed, run.default, run.axis) == ("1", "charts/episodic_return", "global_step")
    assert run.settings == {"lr": "0.1", "agent": "dqn"}
    assert running.seed == "r2"
    np.testing.assert_array_equal(run.curves("charts/episodic_return")[0].x, [0, 10, 20])
    assert [each.name for each in read(f"{prefix}/r2")] == [f"{prefix}/r2"]
    online()
    with pytest.raises(ConfigError, match="there is no wandb run"):
        read(prefix)


def test_a_server_that_does_not_answer_is_one_line(monkeypatch: pytest.MonkeyPatch):
    def refuse(timeout: int) -> Any:
        raise OSError("no\nroute")

    monkeypatch.setattr("wandb.Api", refuse)
    with pytest.raises(ConfigError, match=r"project: cannot be read: no$"):
        read("wandb:me/project")
    with pytest.raises(ConfigError, match="neither a directory nor wandb:ENTITY/PROJECT"):
        read("wandb:nowhere")
