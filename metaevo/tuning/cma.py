"""CMA-ES for a study, rebuilt from the numbers of its finished trials.

Optuna's own sampler stores its state in the study as a pickle and unpickles it later, which is
unsafe for untrusted studies. This sampler stores only the generation of each trial, and replays all
earlier generations when it is created.
"""

import numpy as np
import optuna
from optuna._transform import _SearchSpaceTransform
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import RandomSampler
from optuna.trial import FrozenTrial, TrialState

from metaevo.config.plain import PlainDict
from metaevo.config.space import Space

GENERATION = "cma:generation"
"""System attribute of a trial: the generation that it was drawn from."""
INITIAL_SIGMA = 1 / 6
"""Standard deviation of the first generation, as a share of every range."""


class CmaSampler(RandomSampler):
    """CMA-ES (Hansen, arXiv:1604.00772) over the ranges of a space; choices are drawn at random.

    The algorithm sees every setting as a fraction of its range. A generation is complete as soon
    as enough of its trials are; further trials of the same generation are ignored.
    """

    def __init__(self, space: Space, seed: int | None) -> None:
        """Begin at the centre of a space with at least two ranges."""
        super().__init__(seed)
        self._ranges: dict[str, BaseDistribution] = {
            key: each
            for key, each in space.items()
            if not isinstance(each, CategoricalDistribution)
        }
        self._fractions = _SearchSpaceTransform(self._ranges, transform_0_1=True)
        from cmaes import CMA  # it imports scipy.stats, which takes a second

        self._optimizer = CMA(
            mean=np.full(len(self._ranges), 0.5),
            sigma=INITIAL_SIGMA,
            bounds=self._fractions.bounds,
            n_max_resampling=10 * len(self._ranges),
            seed=seed,
        )

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the ranges, which are sampled together."""
        return dict(self._ranges)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> PlainDict:
        """Pass the completed generations to the algorithm, and sample the next generation."""
        complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        while len(solutions := self._solutions(complete)) == self._optimizer.population_size:
            self._optimizer.tell(solutions)
        generation = self._optimizer.generation
        study._storage.set_trial_system_attr(trial._trial_id, GENERATION, generation)
        return self._fractions.untransform(self._optimizer.ask())

    def _solutions(self, complete: list[FrozenTrial]) -> list[tuple[np.ndarray, float]]:
        """Return the first solutions of the current generation, with their costs."""
        solutions = [
            (self._fractions.transform(trial.params), -float(trial.value or 0.0))
            for trial in complete
            if trial.system_attrs.get(GENERATION) == self._optimizer.generation
        ]
        return solutions[: self._optimizer.population_size]
