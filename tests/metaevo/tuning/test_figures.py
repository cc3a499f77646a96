"""Figures of studies of every shape: what can be drawn is drawn, without a warning."""

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState, create_trial

from metaevo.tuning import figures

RATE, GAMMA = "hyperparams.learning_rate", "hyperparams.gamma"
STEPS, LOSS = "train.num_steps", "value_loss"
DISTRIBUTIONS = {
    RATE: FloatDistribution(1e-4, 1e-1, log=True),
    GAMMA: FloatDistribution(0.9, 0.99),
    STEPS: IntDistribution(8, 64, step=8),
    LOSS: CategoricalDistribution(("squared", "huber", "none")),
}
POINTS = [
    {RATE: 10.0 ** -(1 + place % 3), GAMMA: 0.9 + 0.01 * place, STEPS: 8 + 8 * (place % 5),
     LOSS: ("squared", "huber", "none")[place % 3]}
    for place in range(8)
]  # fmt: skip
FIRST = "optimisation_history.png"
OF_SETTINGS = [FIRST, "parallel_coordinate.png", "slice.png"]
ALL = [*OF_SETTINGS, "contour.png", "parameter_importance.png"]


def study_of(names, values, states=None, rungs=1):
    """A study over some settings; a value a trial."""
    study = optuna.create_study(direction="maximize")
    for point, value, state in zip(
        POINTS, values, states or [TrialState.COMPLETE] * len(POINTS), strict=False
    ):
        study.add_trial(
            create_trial(
                state=state,
                value=value if state == TrialState.COMPLETE else None,
                params={name: point[name] for name in names},
                distributions={name: DISTRIBUTIONS[name] for name in names},
                intermediate_values=dict.fromkeys(range(rungs), value),
            )
        )
    return study


CASES = {
    "all kinds": (list(DISTRIBUTIONS), range(8), {}, ALL),
    "all values equal": ([RATE, GAMMA], [3.0] * 8, {}, OF_SETTINGS),
    "one complete trial of many": (
        [RATE, LOSS],
        range(8),
        {"states": [TrialState.COMPLETE] + [TrialState.PRUNED] * 7, "rungs": 2},
        [FIRST, "rungs.png"],
    ),
    "nothing but failed trials": ([RATE], range(3), {"states": [TrialState.FAIL] * 3}, []),
}


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_what_can_be_drawn_is(case, tmp_path):
    names, values, more, expected = CASES[case]
    files = figures.draw(study_of(names, [float(each) for each in values], **more), tmp_path)
    names = {path.name for path in files}
    assert names >= set(expected)
    assert names <= set(figures.CAPTIONS)
    for path in files:
        assert path.read_bytes()[:4] == b"\x89PNG"
    assert sorted(tmp_path.iterdir()) == sorted(files)


def test_a_link_in_the_place_of_a_figure_is_replaced(tmp_path):
    target, folder = tmp_path / "precious", tmp_path / "figures"
    target.write_text("precious")
    folder.mkdir()
    (folder / FIRST).symlink_to(target)
    figures.draw(study_of([RATE], [1.0]), folder)
    assert target.read_text() == "precious"
    assert (folder / FIRST).read_bytes()[:4] == b"\x89PNG"
