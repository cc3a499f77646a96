"""Runs read from directories, finished or not, and from wandb."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import wandb

from metaevo.comparison import sources, wandb_runs
from metaevo.comparison.recorded import RecordedRun, SeedRun, seeds_of
from metaevo.config import ConfigError
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.settings import RecordConfig
from metaevo.runs.trackers import Trackers
from tests.metaevo.comparison.conftest import write_records


def read(*names, notes=None) -> list[SeedRun]:
    return sources.read_all(list(map(str, names)), [] if notes is None else notes)


def names(*given, notes=None) -> list[str]:
    """The names of the runs that are read, in order."""
    return [
        Path(name).name for name in dict.fromkeys(s.run.name for s in read(*given, notes=notes))
    ]


def test_a_training_has_a_curve_and_a_held_out_score_for_every_agent(make_run):
    path, notes = make_run("a", 100.0, seeds=3, seed=7), []
    seeds = read(path, notes=notes)
    curves = [seed for seed in seeds if "mean_return" in seed.metrics]
    assert [seed.seed for seed in curves] == ["7/0", "7/1", "7/2"]
    assert notes == []
    records = RunDirectory(path).read_metrics("update")
    for index, seed in enumerate(curves):
        expected = [record["returns"][index] for record in records]
        np.testing.assert_allclose(seed.metrics["mean_return"], expected)
        # frames in the records are those of all three agents
        np.testing.assert_allclose(seed.x, 100 * np.arange(1, 11))
    held_out = [seed.seed for seed in seeds if "evaluation:greedy policy" in seed.metrics]
    assert held_out == ["7/0", "7/1", "7/2"]
    assert curves[0].run.task == "CartPole-v1"


def test_an_unfinished_run(make_run):
    path, notes = make_run("a", points=4, of=10, finished=False), []
    with path.joinpath("metrics.jsonl").open("a") as file:
        file.write('{"kind": "upd')  # a line that is being written
    assert len(read(path, notes=notes)[0].metrics["mean_return"]) == 4
    assert notes == [f"{path}: is not finished"]


def test_evolutions_and_sweeps_are_one_seed_each(tmp_path: Path):
    evolution = write_records(
        tmp_path / "e",
        {"evolution": {"generations": 4}, "run": {"seed": 3}, "opponent": {"seed": 7}},
        "generation",
        [{"fitness_mean": 5.0, "fitness_of_mean": value} for value in (1.0, None)],
        {"learned": [1.0, None], "b": [2.0, 0.5]},
    )
    curve, *scored = read(evolution)
    assert (curve.seed, curve.default, curve.axis) == ("3", "fitness_of_mean", "generations")
    # None counts as the worst of all.
    assert [(each.seed, each.default, each.metrics) for each in scored] == [
        (f"3/{index}", "evaluation",
         {"evaluation": own, "evaluation:learned": own, "evaluation:b": other})
        for index, (own, other) in enumerate([(1.0, 2.0), (0.5, 0.5)])
    ]  # fmt: skip

    config = {"sweep": {"trials": 4}, "run": {"seed": 1}}
    records = [{"value": value} for value in (2.0, 1.0, None, 3.0)]
    (seed,) = read(write_records(tmp_path / "s", config, "trial", records))
    assert (seed.default, seed.axis) == ("best_value", "trials")
    np.testing.assert_array_equal(seed.metrics["best_value"], [2, 2, 2, 3])


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


# --- wandb --------------------------------------------------------------------------------------


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
    seed, running = read("wandb:me/project", notes=notes)
    prefix = "wandb:me/project"
    assert notes == [
        f"{prefix}/r2: is not finished", f"{prefix}/r3: is not finished",
        f"{prefix}/r3: left out, because it has no records yet",
    ]  # fmt: skip
    assert (seed.seed, seed.default) == ("1", "charts/episodic_return")
    assert seed.run.settings == {"lr": "0.1", "agent": "dqn"}
    assert running.seed == "r2"
    assert seed.axis == "environment steps"
    np.testing.assert_array_equal(seed.x, [0, 10, 20])
    assert [each.run.name for each in read(f"{prefix}/r2")] == [f"{prefix}/r2"]
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


@pytest.mark.long
def test_an_offline_run_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It gives the same seeds as its directory."""
    monkeypatch.delenv("WANDB_MODE")
    wandb.teardown()  # the service of earlier tests, which may have ended
    run = RunDirectory.create(tmp_path / "n", "train")
    config = {
        "run": {"seed": 5, "wandb": "offline", "wandb_project": "p", "mlflow": None},
        "seeds": 2,
        "hyperparams": {"lr": 0.1},
    }
    run.write_config(config, {"run_id": "0123456789abcdef", "job_type": "train"})
    tracked = Trackers(run, RecordConfig(**config["run"]))
    for index in range(3):
        place = {"kind": "update", "update": index, "frames": 20 * (index + 1), "seconds": 0.5}
        returns = [None, 1.0] if index == 1 else [2.0, 3.0]
        record = {**place, "entropy": 2.0 * index, "returns": returns}
        run.append_metrics(record)
        tracked.log(record)
    run.report_path.write_text("finished", encoding="utf-8")
    tracked.close()
    (online,) = wandb_runs.read(f"wandb:{tmp_path}")
    assert online.is_finished
    assert online.settings == {"hyperparams.lr": "0.1"}
    for ours, theirs in zip(read(tmp_path / "n"), seeds_of(online, []), strict=True):
        assert (ours.seed, ours.axis, set(ours.metrics)) == (
            theirs.seed, theirs.axis, set(theirs.metrics),
        )  # fmt: skip
        np.testing.assert_array_equal(theirs.x, [10, 20, 30])  # of each agent
        for name, values in ours.metrics.items():
            np.testing.assert_array_equal(values, theirs.metrics[name])
    # A killed run lacks its end.
    (file,) = (file for file in tmp_path.rglob("*.wandb") if not file.parent.is_symlink())
    file.write_bytes(file.read_bytes()[:-200])
    (killed,) = wandb_runs.read(f"wandb:{tmp_path}")
    assert isinstance(killed, RecordedRun)
    assert not killed.is_finished
    file.write_bytes(b"no log of wandb")
    with pytest.raises(ConfigError, match=r"run-.*\.wandb"):
        wandb_runs.read(f"wandb:{tmp_path}")
