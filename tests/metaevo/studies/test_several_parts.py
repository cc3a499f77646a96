import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

import metaevo
from metaevo.commands.evolve import main
from metaevo.config import ConfigError, code
from metaevo.runs.checkpoint import load_tree
from metaevo.runs.run_directory import RunDirectory
from metaevo.studies.study import Study
from purerl import envs, ppo
from tests.metaevo.evolving import evolve, forget_code, settings_of, study_of

pytestmark = pytest.mark.long

SCALED = '''"""Squared error times a number that is evolved."""

from dataclasses import dataclass

import jax.numpy as jnp
from matplotlib.figure import Figure

from metaevo import Part


@dataclass(frozen=True)
class Scaled(Part):
    slot = "value_loss"
    captions = {"mine.png": "Its scale."}
    unit: float = 1.0

    def init(self, key):
        return {"scale": jnp.zeros(())}

    def apply(self, meta_params, context, prediction, target, old_prediction):
        return self.unit * jnp.exp(meta_params["scale"]) * (prediction - target) ** 2

    def draw(self, found):
        return {"mine.png": Figure(figsize=(1, 1), dpi=50)}

    def findings(self, found):
        return [f"It was scaled by {float(found.meta_params['scale'])}."]
'''
SETTINGS = {
    "learner": "ppo",
    "evolve": ["drift", "scaled.py"],
    "component": {"drift": {"hidden_size": 4}, "scaled": {"unit": 2.0}},
    "make_optimizer": "sgd",
    "train": {"total_timesteps": 96, "num_envs": 2, "num_steps": 16, "update_epochs": 1,
              "num_minibatches": 1, "hidden_sizes": [4]},
    "hyperparams": {"learning_rate": 2e-2},
    "strategy": {"population_size": 8, "sigma": 0.5},
    "evolution": {"generations": 2, "validation_seeds": 2, "chunk_size": 1, "num_devices": 1},
    "evaluation": {"seeds": 3},
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where a user works: a part, settings, and the run that they gave."""
    path = tmp_path_factory.mktemp("several")
    (path / "scaled.py").write_text(SCALED)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        evolve(path, SETTINGS)
    return path


@pytest.fixture
def workspace(folder, monkeypatch):
    """The same, of a process that has imported nothing of somebody's own."""
    monkeypatch.chdir(folder)
    forget_code(monkeypatch)
    return folder


def test_contenders_vary_one_part_at_a_time(folder):
    assert metaevo.Scores.load(folder / "run" / "scores.npz").contenders == (
        "learned",
        "clipped_surrogate + squared",
        "dpo + squared",
        "clipped_surrogate + clipped_squared",
        "clipped_surrogate + huber",
    )


def test_a_part_draws_and_describes_itself(folder):
    run = folder / "run"
    figures = {path.name for path in (run / "figures").iterdir()}
    of_run = {"fitness.png", "scores.png", "learning_curves.png"}
    assert figures == of_run | {"policy_loss.png", "mine.png", "loss.png"}
    found, _ = load_tree(run / "meta_params.npz")
    assert set(found) == {"policy_loss", "value_loss"}
    scale = float(found["value_loss"]["scale"])
    report = (run / "report.html").read_text()
    assert f"It was scaled by {scale}." in report
    assert "<figcaption>Its scale.</figcaption>" in report


def test_the_parts_load_and_train(folder):
    load = {
        slot: metaevo.load(folder / "run", slot=slot, code=folder / "scaled.py")
        for slot in ("policy_loss", "value_loss")
    }
    with pytest.raises(ConfigError, match="policy_loss and value_loss: say which"):
        metaevo.load(folder / "run", code=folder / "scaled.py")
    function, meta_params = load["value_loss"]
    scale = np.exp(meta_params["scale"])
    assert function(meta_params, None, 3.0, 1.0, 0.0) == pytest.approx(8.0 * scale)
    env, env_params = envs.make("CartPole-v1")
    drift, of_drift = load["policy_loss"]
    learner = ppo.PPO(ppo.Config(32, 2, 16, 1, 1, hidden_sizes=(4,)), env, policy_loss=drift)
    key = jax.random.key(0)
    jax.eval_shape(learner.train, key, ppo.Hyperparams(), of_drift, env_params)


def test_the_parts_load_with_their_code_only(workspace, tmp_path, monkeypatch):
    for slot in ("policy_loss", "value_loss"):
        with pytest.raises(ConfigError, match=r"does not name.* add --code scaled\.py"):
            metaevo.load("run", slot=slot)
    assert not code.is_loaded("scaled.py")
    changed = tmp_path / "scaled.py"
    changed.write_text(SCALED + "\n# changed")
    with pytest.raises(ConfigError, match=r"has changed .*--code run/code/scaled\.py"):
        metaevo.load("run", slot="value_loss", code=changed)
    assert callable(metaevo.load("run", slot="value_loss", code="run/code/scaled.py")[0])
    run = Path(shutil.copytree("run", tmp_path / "run"))
    copy = run / "code" / "scaled.py"
    copy.write_text(copy.read_text() + "\n# changed")
    forget_code(monkeypatch)
    with pytest.raises(ConfigError, match="has changed since the run began"):
        metaevo.load(run, slot="value_loss", code=copy)


def test_a_command_names_the_code_of_a_run(workspace, refused, monkeypatch):
    line = refused(main, ["--resume", "--run-dir", "run"])
    assert "--code scaled.py" in line
    assert not code.is_loaded("scaled.py")
    resume = ["--resume", "--run-dir", "run"]
    for named in (["--evolve", "[drift,scaled.py]"], ["--code", "run/code/scaled.py"]):
        forget_code(monkeypatch)
        assert main([*resume, *named]) == 0


def test_a_slot_is_filled_from_a_run(workspace, tmp_path):
    """`value_loss: RUN` in another evolution, which keeps a copy of it and of its source."""
    own = {"component": {"hidden_size": 4}, "value_loss": str(workspace / "run")}
    raw = SETTINGS | {"evolve": "drift", **own}
    settings = settings_of(raw)
    with pytest.raises(ConfigError, match="from outside metaevo"):
        study_of(raw)
    code.use("scaled.py")
    study = Study(settings.build(), settings)
    function = study.problem.fixed["value_loss"].function
    own, meta_params = metaevo.load(workspace / "run", slot="value_loss")
    arguments = None, 3.0, 1.0, 0.0
    assert function("of others", *arguments) == own(meta_params, *arguments)
    run = RunDirectory.create(tmp_path / "run", "")
    study.keep(run, study.measure())
    copy = run.path / "losses" / "value_loss"
    assert (copy / "code" / "scaled.py").read_text() == SCALED
    moved = Study(settings.build(run.path), settings)
    assert moved.problem.fixed["value_loss"].function(None, *arguments) == function(
        None, *arguments
    )
