"""Figures of studies: nothing outside their folder is written; whole sweeps draw the rest."""

import optuna
from optuna.distributions import FloatDistribution
from optuna.trial import create_trial

from metaevo.tuning import figures


def test_a_link_in_the_place_of_a_figure_is_replaced(tmp_path):
    study = optuna.create_study(direction="maximize")
    distributions = {"hyperparams.learning_rate": FloatDistribution(1e-4, 1e-1, log=True)}
    params = {"hyperparams.learning_rate": 1e-2}
    study.add_trial(create_trial(value=1.0, params=params, distributions=distributions))
    target, folder = tmp_path / "precious", tmp_path / "figures"
    target.write_text("precious")
    folder.mkdir()
    link = folder / "optimisation_history.png"
    link.symlink_to(target)
    figures.draw(study, folder)
    assert target.read_text() == "precious"
    assert link.read_bytes()[:4] == b"\x89PNG"
