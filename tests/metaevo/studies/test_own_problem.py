from pathlib import Path

import jax
import pytest

import metaevo
from metaevo.__main__ import main
from metaevo.commands.evolve import main as evolve
from metaevo.config import ConfigError
from metaevo.parts import learners
from purerl import sac
from purerl.parts import losses
from purerl.types import LearnerEntry

FILE = Path(__file__).parents[3] / "examples" / "throw.py"
NAME = f"{FILE}:Throw"
FLAGS = ["--evolution.chunk_size", "64", "--evolution.validation_seeds", "4", "--devices", "1"]


@pytest.mark.long
def test_the_command_evolves_and_judges_it(tmp_path):
    path = tmp_path / "run"
    flags = ["--wind", "2.0", "--generations", "40", "--evaluation.seeds", "32", *FLAGS]
    assert main(["evolve", "--problem", NAME, *flags, "--run-dir", str(path)]) == 0
    scores = metaevo.Scores.load(path / "scores.npz")
    assert scores.contenders == ("learned", "without wind")
    assert scores.verdict().word == "better"
    assert "m/s" in (path / "report.html").read_text()
    assert {"angle", "speed"} == set(metaevo.load(path))
    longer = ["--generations", "42", *FLAGS]
    assert main(["evolve", "--resume", "--run-dir", str(path), *longer]) == 0
    assert main(["evaluate", "--run-dir", str(path), "--wind", "3.0"]) == 0


@pytest.mark.parametrize(
    ("text", "flags", "words"),
    [
        ("", ["--problem", "throwing"], ["problem = 'throwing'", "FILE.py:NAME"]),
        ("class Own: pass", [], ["metaevo.MetaProblem"]),
        ("class Own(metaevo.MetaProblem): pass", [], ["does not define init"]),
        ("class Own(metaevo.MetaProblem):\n  def __init__(self, wind): pass", [], ["wind"]),
        ("@dataclass\nclass Own(metaevo.MetaProblem):\n  run: int = 1", [], ["field run"]),
        ("@dataclass\nclass Own(metaevo.MetaProblem):\n  wind: int", [], ["missing", "wind"]),
        ("", ["--problem", NAME, "--wnid", "3"], ["wnid", "did you mean", "wind"]),
    ],
)
def test_what_is_no_problem_is_refused(text, flags, words, tmp_path, refused):
    file = tmp_path / "own.py"
    file.write_text(f"from dataclasses import dataclass\nimport metaevo\n{text}\n")
    argv = [*(flags or ["--problem", f"{file}:Own"]), "--run-dir", str(tmp_path / "run")]
    error = refused(evolve, argv)
    assert all(word in error for word in words), error
    assert not (tmp_path / "run").exists()


def make(config, env, **slots):
    return sac.SAC(config, env, **slots)


OWN = LearnerEntry(sac.Config, sac.Hyperparams, make, sac.SLOTS)


def test_as_an_object_it_is_a_problem():
    problem = metaevo.LearnerProblem(
        OWN, metaevo.parts.ValueLossNetwork((4,)), ["Pendulum-v1"],
        fitness={"mean_return": 0, "reward_per_step": 1},
    )  # fmt: skip
    key = jax.random.key(0)
    assert jax.eval_shape(problem.evaluate, key, problem.init(key), 0).fitness.shape == ()


def test_objects_of_purerl_keep_their_names():
    assert learners.name_of(learners.find("ppo")) == "ppo"
    assert learners.name_of(sac.LEARNER) == "sac"
    assert learners.name_of(OWN) == f"{__name__}:OWN"
    assert learners.find(f"{__name__}:OWN") is OWN


def test_an_entry_with_an_unknown_function_is_refused():
    with pytest.raises(ValueError, match=r"'value_loss'.*'square' must be one of squared"):
        losses.VALUE_LOSS.comparing("square")
    wrong = OWN._replace(slots={"value_loss": ("squared",)})
    with pytest.raises(ConfigError, match=r"slots: must be a tuple of purerl\.types\.Slot"):
        metaevo.LearnerProblem(wrong, "value_loss", ["Pendulum-v1"])
    with pytest.raises(ConfigError, match=r"purerl\.types\.LearnerEntry"):
        metaevo.LearnerProblem(sac, "value_loss", ["Pendulum-v1"])
