"""`metaevo.judge`: a judgement of contenders from Python."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metaevo.evolution.problem import Contender
from metaevo.judging.budget import Budget
from metaevo.judging.judge import Judgement, Progress, run
from metaevo.judging.scores import Scores

if TYPE_CHECKING:
    from metaevo.studies.api import Found


def judge(
    contenders: Sequence["Contender | Found"],
    budget: Budget | None = None,
    *,
    space: Mapping[str, Any] | None = None,
    seed: int = 0,
    path: str | os.PathLike | None = None,
    progress: Progress | None = None,
) -> Scores:
    """Tune contenders on equal budgets, and compare them on fresh seeds.

    Args:
        contenders: what to compare, such as what was evolved and `problem.contenders()`.
        budget: settings and seeds of each contender on each task.
        space: hyperparameters to tune, each with a list of values or a range; by default none.
        seed: of all randomness; the seeds of evolution, validation, tuning and comparison differ.
        path: an .npz file to keep what is done, so that an interrupted judgement goes on.
        progress: called with the environment steps just done; by default a progress bar.

    Raises:
        ConfigError: before compilation, for invalid contenders or ranges.

    Examples:
        >>> space = {"learning_rate": {"log_uniform": [1e-3, 1e-2]}}
        >>> rivals = [found, *problem.contenders()]
        >>> scores = metaevo.judge(rivals, metaevo.Budget(settings=64), space=space)
        >>> print(scores.verdict())
    """
    entered = [one if isinstance(one, Contender) else one.contender() for one in contenders]
    judgement = Judgement(entered, budget or Budget(), space=space, seed=seed)
    file = None if path is None else Path(path)
    if file is not None and file.exists():
        judgement.restore(file)
    return run(judgement, file, progress=progress)
