"""A custom study, examples/my_study.py, by the command and as an object."""

from pathlib import Path

import numpy as np
import pytest

import metaevo
from examples import my_study
from metaevo.__main__ import main
from metaevo.config import ConfigError
from metaevo.studies import registry

FILE = Path(__file__).parents[3] / "examples" / "my_study.py"
NAME = f"{FILE}:Throwing"
FLAGS = ["--evolution.chunk_size", "64", "--evolution.validation_seeds", "4", "--devices", "1"]


@pytest.mark.long
def test_the_command_evolves_and_compares_it(tmp_path):
    path = tmp_path / "run"
    flags = ["--wind", "2.0", "--generations", "40", "--evaluation.seeds", "32", *FLAGS]
    assert main(["evolve", "--study", NAME, *flags, "--run-dir", str(path)]) == 0
    scores = metaevo.Scores.load(path / "scores.npz")
    assert scores.contenders == ("learned", "without wind")
    assert scores.verdict().word == "better"
    assert "m/s" in (path / "report.html").read_text()
    assert {"angle", "speed"} == set(metaevo.load(path))
    longer = ["--generations", "42", *FLAGS]
    assert main(["evolve", "--resume", "--run-dir", str(path), *longer]) == 0
    assert main(["evaluate", "--run-dir", str(path), "--wind", "3.0"]) == 0


@pytest.mark.long
def test_as_an_object_it_gives_the_same(tmp_path):
    config = metaevo.EvolutionConfig(generations=5, validation_seeds=4, num_devices=1)
    this = my_study.Throwing(my_study.Settings(wind=2.0))
    found = metaevo.evolve(this, evolution=config)
    durable = metaevo.evolve(this, evolution=config, run_dir=tmp_path / "run")
    np.testing.assert_array_equal(found.meta_params["angle"], durable.meta_params["angle"])
    assert (tmp_path / "run" / "scores.npz").exists()


def test_names_of_no_study_are_refused():
    for name, message in (
        ("throwing", r"study = 'throwing' is not known; allowed: .*FILE\.py:NAME"),
        (f"{FILE}:Throw", "derives from metaevo.Study"),
    ):
        with pytest.raises(ConfigError, match=message) as raised:
            registry.find({"study": name})
        assert "\n" not in str(raised.value)
