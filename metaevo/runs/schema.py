"""The keys of a run's files that readers use; a file may have other keys."""

from datetime import datetime
from typing import Annotated, Any, NotRequired, Required

from pydantic import AfterValidator, GetPydanticSchema
from typing_extensions import TypedDict  # pydantic needs it on Python 3.11

from metaevo.config.checks import Count, Index, Measure, Number, Seconds, Text, check
from metaevo.config.plain import PlainDict


def _checked_as(kind: type) -> GetPydanticSchema:
    """Check the values that `kind` lists in a dict of any values."""
    return GetPydanticSchema(lambda _, handler: handler.generate_schema(kind))


def _moment(value: str) -> str:
    datetime.fromisoformat(value)
    return value


# --- config.yaml --------------------------------------------------------------------------------


class _Run(TypedDict, total=False):
    seed: Index


class _Task(TypedDict, total=False):
    env: Text
    env_params: PlainDict


class _Environment(TypedDict, total=False):
    started: Annotated[Text, AfterValidator(_moment)]


Environment = Annotated[PlainDict, _checked_as(_Environment)]


class _Settings(TypedDict, total=False):
    """Settings that are read without their dataclass."""

    learner: Text
    evolve: Text | list[Text]
    seeds: Count
    run: _Run
    task: _Task


class _Scales(TypedDict):
    random: list[Number]
    reference: list[Number]


class _Resolved(TypedDict, total=False):
    run_id: Text
    job_type: Text
    num_devices: Count
    chunk_size: Count
    log_every: Count
    code: dict[str, Text]
    normalisation: _Scales | None


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
    """A line of metrics.jsonl; `Records.column` reads the other numbers."""

    kind: Required[Text]
    frames: Index
    seconds: Seconds
    returns: list[Measure] | None


def check_record(record: Any, where: str) -> PlainDict:
    """Return a record of metrics.jsonl; `where` names the file and the line."""
    checked: Any = check(_Record, record, where)
    check(Index, checked.get(checked["kind"]), where, checked["kind"])
    return record


# --- Other files --------------------------------------------------------------------------------


class Scored(TypedDict):
    """The keys of a variant that comparisons of runs read."""

    name: Text
    scores: list[Measure]


class Evaluation(TypedDict):
    """The keys of evaluation.json that comparisons of runs read."""

    variants: list[Scored]


# --- Other files --------------------------------------------------------------------------------


class Saved(TypedDict):
    """Metadata of a checkpoint."""

    run_id: Text
    seconds: Seconds
