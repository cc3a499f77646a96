"""CMA-ES for a study, rebuilt from the numbers of its finished trials.

Optuna's own sampler stores its state in the study as a pickle and unpickles it later, which is
unsafe for untrusted studies. This sampler stores only the generation of each trial, and replays all
earlier generations when it is created.
"""

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import RandomSampler
from optuna.trial import FrozenTrial, TrialState

from metaevo.config.plain import PlainDict
from metaevo.tuning.ranges import Range, at, fraction_of
from metaevo.tuning.space import Space

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
        """Begin at the centre of a space with at least one range."""
        super().__init__(seed)
        self._ranges = {key: each for key, each in space.entries.items() if isinstance(each, Range)}
        dimensions = len(self._ranges)
        from cmaes import CMA  # it imports scipy.stats, which takes a second

        self._optimizer = CMA(
            mean=np.full(dimensions, 0.5),
            sigma=INITIAL_SIGMA,
            bounds=np.tile([0.0, 1.0], (dimensions, 1)),
            n_max_resampling=10 * dimensions,
            seed=seed,
        )

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the ranges, which are sampled together."""
        del study, trial
        return dict(self._ranges)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> PlainDict:
        """Pass the completed generations to the algorithm, and sample the next generation."""
        complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        while len(solutions := self._solutions(complete)) == self._optimizer.population_size:
            self._optimizer.tell(solutions)
        fractions = self._optimizer.ask()
        generation = self._optimizer.generation
        study._storage.set_trial_system_attr(trial._trial_id, GENERATION, generation)
        pairs = zip(self._ranges.items(), fractions.tolist(), strict=True)
        return {key: at(entry, fraction) for (key, entry), fraction in pairs if key in search_space}

    def _solutions(self, complete: list[FrozenTrial]) -> list[tuple[np.ndarray, float]]:
        """Return the first solutions of the current generation, with their costs."""
        solutions = []
        for trial in complete:
            is_whole = self._ranges.keys() <= trial.params.keys()
            if is_whole and trial.system_attrs.get(GENERATION) == self._optimizer.generation:
                fractions = [fraction_of(each, trial.params[k]) for k, each in self._ranges.items()]
                solutions.append((np.array(fractions), -float(trial.value or 0.0)))
        return solutions[: self._optimizer.population_size]
