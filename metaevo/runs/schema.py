"""Schema of every file in a run directory that is read back.

Each file has a frozen dataclass with the keys that some reader uses; other keys are allowed.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from annotated_types import Len
from pydantic import AfterValidator

from metaevo.config import ConfigError
from metaevo.config.checks import Count, Index, Measure, Number, Seconds, Text, check


def _env(value: Any) -> Any:
    if isinstance(value, str) or (
        isinstance(value, list) and value and all(isinstance(each, str) for each in value)
    ):
        return value
    raise ValueError("must be a name or a list of names")


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


Moment = Annotated[Text, AfterValidator(_moment)]
Score = Annotated[Any, AfterValidator(_score)]
"""score of a seed; with several environments a list"""

# --- config.yaml --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Run:
    seed: Index = 0
    wandb: Literal["disabled", "offline", "online"] = "disabled"
    wandb_project: Text = "metaevo"
    mlflow: Text | None = None


@dataclass(frozen=True)
class _Task:
    env: Annotated[Any, AfterValidator(_env)] = "CartPole-v1"
    env_params: dict[str, Any] = None  # type: ignore[assignment]


@dataclass(frozen=True)
class _Train:
    total_timesteps: Number = 0


@dataclass(frozen=True)
class _Evolution:
    generations: Index = 0


@dataclass(frozen=True)
class _Sweep:
    trials: Index | None = None


@dataclass(frozen=True)
class _Settings:
    """What is read of settings without the class that they were made from."""

    learner: Text = ""
    evolve: Text | list[Text] = ""
    seeds: Count = 1
    run: _Run = _Run()
    task: _Task = _Task()
    train: _Train = _Train()
    evolution: _Evolution = _Evolution()
    sweep: _Sweep = _Sweep()


@dataclass(frozen=True)
class _Normalisation:
    random: list[Number]
    reference: list[Number]


@dataclass(frozen=True)
class _Resolved:
    run_id: Text = ""
    num_devices: Count = 1
    chunk_size: Count = 1
    log_every: Count = 1
    normalisation: _Normalisation | None = None


@dataclass(frozen=True)
class _Environment:
    started: Moment = ""


@dataclass(frozen=True)
class Config:
    """config.yaml."""

    config: _Settings
    resolved: _Resolved
    environment: _Environment
    resumed: list[_Environment] = ()  # type: ignore[assignment]


# --- metrics.jsonl ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Record:
    frames: Index
    seconds: Seconds


@dataclass(frozen=True)
class _Generation(_Record):
    generation: Index
    fitness_mean: Measure = None
    fitness_std: Measure = None
    fitness_best: Measure = None
    fitness_low: Measure = None
    fitness_high: Measure = None
    fitness_of_mean: Measure = None
    diverged: Measure = None


@dataclass(frozen=True)
class _Update(_Record):
    update: Index
    mean_return: Measure = None
    returns: list[Measure] | None = None


@dataclass(frozen=True)
class _Trial(_Record):
    trial: Index
    value: Measure = None
    params: dict[str, Any] = None  # type: ignore[assignment]


@dataclass(frozen=True)
class _Evaluation:
    evaluation: Index
    name: Text = ""
    iqm: Measure = None
    low: Measure = None
    high: Measure = None


_KINDS = {
    "generation": _Generation,
    "update": _Update,
    "trial": _Trial,
    "evaluation": _Evaluation,
}


def _check_index(record: dict[str, Any], where: str) -> str:
    """Return the kind of a record that has one, and an index under that name."""
    kind: Any = record.get("kind")
    check(Text, kind, where, "kind")
    check(Index, record.get(kind), where, kind)
    return str(kind)


def check_record(record: Any, where: str) -> dict[str, Any]:
    """Return a record of metrics.jsonl, or of a nested run, if it is one.

    Args:
        record: the data of a line.
        where: the file and the line, for the message.

    Raises:
        ConfigError: naming what is wrong.
    """
    if not isinstance(record, dict):
        raise ConfigError(f"{where}: not a JSON object")
    kind = record.get("kind")
    if isinstance(kind, str) and kind in _KINDS:
        return check(_KINDS[kind], record, where)
    _check_index(record, where)
    return record


# --- evaluation.json ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Variant:
    name: Text
    scores: list[Score]


@dataclass(frozen=True)
class Evaluation:
    """evaluation.json, as far as comparisons of runs read it."""

    variants: list[_Variant]


@dataclass(frozen=True)
class _Confirmed(_Variant):
    settings: dict[str, Any]
    tuning_frames: Index
    seeds: Index
    iqm: Number
    mean: Number
    diverged: Index
    interval: Annotated[list[Number], Len(2, 2)]


@dataclass(frozen=True)
class _Pair:
    conclusion: Literal["better", "worse", "undecided"]
    difference: Number
    difference_interval: Annotated[list[Number], Len(2, 2)]


@dataclass(frozen=True)
class Confirmation:
    """evaluation.json of a sweep."""

    variants: Annotated[list[_Confirmed], Len(2)]
    pairs: Annotated[list[_Pair], Len(1)]
    best_trial: Index
    search_value: Number


# --- Other files --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Saved:
    """The metadata of a checkpoint."""

    run_id: Text
    seconds: Seconds


@dataclass(frozen=True)
class Scores:
    """confirmation.json of a sweep: what was trained so far on fresh seeds."""

    key: Any
    scores: dict[str, Annotated[list[Measure], Len(1)]]
    diverged: dict[str, Index] = None  # type: ignore[assignment]


@dataclass(frozen=True)
class _UnseenVariant:
    name: Text
    function: Text
    settings: dict[str, Measure]
    tuning_frames: Index
    diverged: Index
    scores: Annotated[list[Number], Len(1)]


@dataclass(frozen=True)
class UnseenScores:
    """unseen/NAME.json: what was trained on a task that evolution has not seen."""

    key: Text
    variants: Annotated[list[_UnseenVariant], Len(2)]
    random: Annotated[list[Number], Len(1)]
    reference: Annotated[list[Number], Len(1)]


@dataclass(frozen=True)
class Schedule:
    """pbt.json: of all rounds, the settings that won."""

    schedule: dict[str, list[Number]]


@dataclass(frozen=True)
class _Attributes:
    frames: Index = 0
    scores: list[Measure] | None = None
    fraction: Number | None = None
    diverged: Index = 0
    seconds: Number = 0
    final: dict[str, Any] = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Result:
    """What a study keeps of a trial that is decided."""

    outcome: Literal["complete", "pruned", "failed", "surplus", "superseded"] = "failed"
    value: Measure = None
    attributes: _Attributes = _Attributes()


Members = dict[str, dict[str, Any]]
"""pbt_members.json: the settings by the places in the design"""


@dataclass(frozen=True)
class _Opening:
    run: Text
    job_type: Text


@dataclass(frozen=True)
class _Child:
    child: Text
    job_type: Text
    config: dict[str, Any]
    records: list[dict[str, Any]]


def check_tracked(line: Any, where: str) -> dict[str, Any]:
    """Return a line of tracked.jsonl: a nested run, or the name and the kind of the run itself.

    Raises:
        ConfigError: naming the key that does not fit.
    """
    if not isinstance(line, dict):
        raise ConfigError(f"{where}: not a JSON object")
    if "child" in line:
        check(_Child, line, where)
        for record in line["records"]:
            _check_index(record, where)
    elif "run" in line:
        check(_Opening, line, where)
    return line
