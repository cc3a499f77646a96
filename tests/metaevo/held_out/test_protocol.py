"""What the protocol of a comparison draws."""

from types import SimpleNamespace

import numpy as np

from metaevo.comparison import protocol
from metaevo.comparison.evaluation import Scores
from metaevo.training.train_learner import Task
from purerl import ppo


def test_the_curves_of_a_suites_environments_are_files_of_the_folder(tmp_path):
    config = SimpleNamespace(config=ppo.Config(total_timesteps=2048))
    tasks = [Task(name, config, None) for name in ("brax/ant", "CartPole-v1")]
    curves = np.linspace(0.0, 1.0, 16).reshape(2, 2, 4)
    scores = {"discovered": Scores(curves[..., 0], curves, np.zeros((2, 2), bool))}
    result = {
        "variants": [{"name": "discovered", "function": "discovered", "tuning_frames": 0}],
        "curves": "return",
    }
    settings = SimpleNamespace(evaluation=SimpleNamespace(curve_points=4))
    protocol._draw_curves(settings, tasks, tmp_path, result, scores, without=())
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn == {"learning_curves_brax_ant.png", "learning_curves_CartPole-v1.png"}
