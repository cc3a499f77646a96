import numpy as np
import pytest

from metaevo.config.files import write_json_atomic
from metaevo.runs.run_directory import RunDirectory
from tests.metaevo.toy import untuned


def write_records(path, config, kind, records, scores=None, *, finished=True):
    """A run with these records; `scores` by variant go to evaluation.json, or to scores.npz."""
    run = RunDirectory.create(path, "x")
    run.write_config(config, {})
    for index, record in enumerate(records):
        place = {"kind": kind, kind: index, "frames": index, "seconds": index}
        run.append_metrics(place | record)
    if scores is not None and kind == "generation":
        table = {name: np.array(each, float).T for name, each in scores.items()}
        tasks = [f"t{place}" for place in range(max(each.ndim for each in table.values()))]
        untuned(table, tasks).save(run.scores_path)
    elif scores is not None:
        variants = [{"name": name, "scores": each} for name, each in scores.items()]
        write_json_atomic(run.evaluation_path, {"variants": variants})
    if finished:
        run.report_path.write_text("done")
    return path


def write_run(
    path,
    level=100.0,
    *,
    rate=0.1,
    seeds=6,
    seed=0,
    points=10,
    env="CartPole-v1",
    finished=True,
    spread=5.0,
    extra=None,
):
    """A training of `seeds` agents that rises to `level`: `points` of its 10 records."""
    config = {
        "learner": "ppo",
        "seeds": seeds,
        "task": {"env": env, "env_params": {}},
        "train": {"total_timesteps": 1000},
        "hyperparams": {"learning_rate": rate, **(extra or {})},
        "run": {"seed": seed, "wandb": "disabled"},
    }
    rng = np.random.default_rng(seed)
    offsets = np.linspace(-spread, spread, seeds) + rng.normal(0, 0.01, seeds)
    records = []
    for index in range(points):
        share = min(1.0, (index + 1) / 5)
        returns = level * share + offsets
        records.append(
            {
                "frames": (index + 1) * 100 * seeds, "seconds": 0.5 * (index + 1),
                "mean_return": returns.mean(), "returns": returns, "entropy": 1.0 - share / 2,
            }
        )  # fmt: skip
    scores = {"greedy policy": (level + offsets).tolist()} if finished else None
    return write_records(path, config, "update", records, scores, finished=finished)


@pytest.fixture
def make_run(tmp_path):
    def make(name, *arguments, **what):
        return write_run(tmp_path / name, *arguments, **what)

    return make
