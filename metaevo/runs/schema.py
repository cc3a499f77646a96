"""The keys of a run's files that readers use; a file may have other keys."""

from datetime import datetime
from typing import Annotated, Any, NotRequired, Required

from pydantic import AfterValidator, GetPydanticSchema
from typing_extensions import TypedDict  # pydantic needs it on Python 3.11

from metaevo.config.checks import Count, Index, Measure, Seconds, Text, check
from metaevo.config.plain import PlainDict


def _checked_as(kind: type) -> GetPydanticSchema:
    """Check the values that `kind` lists in a dict of any values."""
    return GetPydanticSchema(lambda _, handler: handler.generate_schema(kind))


def _moment(value: str) -> str:
    datetime.fromisoformat(value)
    return value


class _Settings(TypedDict, total=False):
    seeds: Count


class _Resolved(TypedDict, total=False):
    run_id: Text
    job_type: Text
    chunk_size: Count
    log_every: Count


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


class _Scored(TypedDict):
    name: Text
    scores: list[Measure]


class Evaluation(TypedDict):
    """evaluation.json."""

    variants: list[_Scored]


class Saved(TypedDict):
    """Metadata of a checkpoint."""

    run_id: Text
    seconds: Seconds
