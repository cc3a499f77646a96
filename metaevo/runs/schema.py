"""Schema of the files in a run directory, as runs write them and readers accept them.

Each file is a `TypedDict` with the keys that some reader uses; a file may have other keys.
"""

from datetime import datetime
from typing import Annotated, Any, Literal, NotRequired, cast

from annotated_types import Len
from pydantic import AfterValidator, GetPydanticSchema
from typing_extensions import TypedDict  # pydantic needs it on Python 3.11

from metaevo.config import ConfigError
from metaevo.config.checks import Count, Index, Measure, Number, Seconds, Text, check
from metaevo.config.plain import PlainDict
from metaevo.statistics import Verdict


def _score(value: Any) -> Any:
    numbers = value if isinstance(value, list) else [value]
    if numbers and all(each is None or _is_number(each) for each in numbers):
        return value
    raise ValueError("must be a number, null, or a list of a seed's numbers")


def _is_number(value: Any) -> bool:
    finite = isinstance(value, float) and value - value == 0
    whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    return finite or whole


def _moment(value: str) -> str:
    datetime.fromisoformat(value)
    return value


def _checked_as(kind: type) -> GetPydanticSchema:
    """Check the values that `kind` lists in a dict of any values."""
    return GetPydanticSchema(lambda _, handler: handler.generate_schema(kind))


Interval = Annotated[list[Number], Len(2, 2)]
Score = Annotated[Any, AfterValidator(_score)]
"""score of a seed; on several tasks a list"""

# --- config.yaml --------------------------------------------------------------------------------


class _Run(TypedDict, total=False):
    seed: Index
    wandb: Literal["disabled", "offline", "online"]
    wandb_project: Text
    mlflow: Text | None


class _Task(TypedDict, total=False):
    env: Text
    env_params: PlainDict


class _Settings(TypedDict, total=False):
    """Settings that are read without their dataclass."""

    learner: Text
    evolve: Text | list[Text]
    seeds: Count
    run: _Run
    task: _Task


class _Normalisation(TypedDict):
    random: list[Number]
    reference: list[Number]


class _Resolved(TypedDict, total=False):
    run_id: Text
    job_type: Text
    num_devices: Count
    chunk_size: Count
    log_every: Count
    code: dict[str, Text]
    normalisation: _Normalisation | None


class _Environment(TypedDict, total=False):
    started: Annotated[Text, AfterValidator(_moment)]


Environment = Annotated[PlainDict, _checked_as(_Environment)]


class SavedConfig(TypedDict):
    """config.yaml."""

    config: Annotated[PlainDict, _checked_as(_Settings)]
    """all settings"""
    resolved: Annotated[PlainDict, _checked_as(_Resolved)]
    """values chosen from them when the run began"""
    environment: Environment
    """versions, devices, git commit, command line"""
    resumed: NotRequired[list[Environment]]
    """the environment of every continuation"""


# --- metrics.jsonl ------------------------------------------------------------------------------


class _Record(TypedDict, total=False):
    """A line of metrics.jsonl: an update, a generation, a trial, or a row of the evaluation."""

    frames: Index
    seconds: Seconds
    mean_return: Measure
    returns: list[Measure] | None
    fitness_mean: Measure
    fitness_std: Measure
    fitness_best: Measure
    fitness_low: Measure
    fitness_high: Measure
    fitness_of_mean: Measure
    diverged: Measure
    value: Measure
    params: PlainDict
    name: Text
    iqm: Measure
    low: Measure
    high: Measure


def check_record(record: Any, where: str) -> PlainDict:
    """Return a record of metrics.jsonl; `where` names the file and the line."""
    if not isinstance(record, dict):
        raise ConfigError(f"{where}: not a JSON object")
    check(_Record, record, where)
    kind = check(Text, record.get("kind"), where, "kind")
    check(Index, record.get(kind), where, kind)
    return record


# --- evaluation.json ----------------------------------------------------------------------------


class Scored(TypedDict):
    """The keys of a variant that comparisons of runs read."""

    name: Text
    scores: list[Score]


class Evaluation(TypedDict):
    """The keys of evaluation.json that comparisons of runs read."""

    variants: list[Scored]
    learned: NotRequired[Any]


class _Summary(Scored):
    tuning_frames: Index
    seeds: Index
    iqm: Number
    interval: Interval
    mean: Number
    diverged: Index


class ResultRow(_Summary):
    """One contender with one choice of hyperparameters."""

    function: Text
    settings: dict[str, Measure]


class _Pair(TypedDict):
    conclusion: Verdict
    difference: Number
    difference_interval: Interval


class Judgement(_Pair):
    """Comparison of a learned variant with another variant."""

    learned: Text
    other: Text
    probability_of_improvement: Number
    probability_interval: Interval
    p: Number
    seed: NotRequired[Index]
    validation: NotRequired[Measure]


class Together(_Pair):
    """Comparison of several evolutions' mean with the best hand-written variant."""

    evolutions: Index
    better: Index
    iqm: Number
    interval: Interval
    p: Number


class HeldOut(TypedDict):
    """evaluation.json of an evolution, with further keys of its study."""

    variants: list[ResultRow]
    pairs: list[Judgement]
    learned: Text
    """name of the variant; of several evolutions, of the best one on validation seeds"""
    best_hand_written: Text
    conclusion: Verdict
    against_best: Judgement
    evolutions: NotRequired[list[Judgement]]
    together: NotRequired[Together]
    tuning_settings: NotRequired[Index]
    tuning_seeds: NotRequired[Index]
    tuning_rounds: NotRequired[list[Annotated[list[Index], Len(2, 2)]]]
    """settings and seeds of each round"""
    frames_per_agent: NotRequired[Index]
    evolution_frames: NotRequired[Index]
    curves: NotRequired[Text]
    """quantity of the learning curves"""
    budget: NotRequired[Text]
    """tuning of the contenders"""
    seen: "NotRequired[Unseen]"
    """for an evolution on several tasks: the comparison on each task"""
    unseen: "NotRequired[Unseen]"


Carried = Literal["better", "not worse", "undecided", "worse"]


class Scale(TypedDict):
    """Mean scores on a task."""

    random: Number
    reference: Number


class UnseenResult(HeldOut):
    """Comparison on a task unseen during evolution."""

    scale: Scale | None


class Unseen(TypedDict):
    """The comparison on all unseen tasks, and `HeldOut` over the tasks with a scale, if any."""

    tasks: dict[str, UnseenResult]
    without_scale: list[Text]
    carried: NotRequired[Carried]
    """the verdict over all tasks; missing in results of earlier versions"""


class JudgedUnseen(TypedDict):
    """evaluation.json of a comparison on unseen tasks only."""

    variants: Annotated[list[Scored], Len(0, 0)]
    unseen: Unseen


class _Confirmed(_Summary):
    settings: PlainDict


class Confirmation(TypedDict):
    """evaluation.json of a sweep."""

    variants: Annotated[list[_Confirmed], Len(2)]
    pairs: Annotated[list[_Pair], Len(1)]
    best_trial: Index
    search_value: Number


def pooled(unseen: Unseen) -> HeldOut | None:
    """Return the comparison over all unseen tasks with a scale; None if there are none."""
    return cast(HeldOut, unseen) if "variants" in unseen else None


# --- Other files --------------------------------------------------------------------------------


class Saved(TypedDict):
    """Metadata of a checkpoint."""

    run_id: Text
    seconds: Seconds


class Measured(TypedDict):
    """A contender with one choice of hyperparameters, and the scores of its agents."""

    name: Text
    function: Text
    settings: dict[str, Measure]
    tuning_frames: Index
    diverged: Index
    scores: Annotated[list[Number | list[Number]], Len(1)]
    """[seeds] or [seeds, tasks]"""


class UnseenScores(TypedDict):
    """unseen/NAME.json: scores on a task unseen during evolution."""

    key: Text
    variants: Annotated[list[Measured], Len(2)]
    random: Annotated[list[Number], Len(1)]
    reference: Annotated[list[Number], Len(1)]
