"""Comparison of players and channels on fresh seeds, shared by the game studies."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import jax
import numpy as np

from metaevo import statistics
from metaevo.config.files import write_json_atomic
from metaevo.config.plain import PlainDict
from metaevo.evolution import devices
from metaevo.evolution.problem import MetaParams
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.judging.scores import Scores
from metaevo.reports.numbers import estimate
from metaevo.reports.page import Table
from metaevo.runs.progress import Progress
from metaevo.runs.run_directory import SCORES
from metaevo.studies.study import Study, StudySettings

R = TypeVar("R")
PAIRS = "pairs.json"
"""File of the estimates of every contender against every opponent."""
Estimate = Sequence[float]
"""An average over seeds, and the ends of its 95% interval."""
Cells = Mapping[str, Sequence[Mapping[str, Estimate]]]
"""By contender, a cell for each opponent with estimates by measure. In cheap talk, a contender is a
channel and an opponent is a victim."""


def mean(values: np.ndarray) -> Estimate:
    """Return the mean of the finite values of an array [seeds]."""
    return [float(each[0]) for each in statistics.mean_curve(values[:, None])]


def interquartile_mean(values: np.ndarray) -> Estimate:
    """Return the interquartile mean of values [seeds]; missing ones count as the worst."""
    found = statistics.summarise(statistics.fill_missing({0: values})[0])
    return [found.iqm, *found.interval]


@dataclass(frozen=True)
class Format:
    """The tables of `Cells` in the report."""

    titles: Mapping[str, str]
    """titles of the tables by measure"""
    note: str
    """text below the first table"""
    corner: str = "opponent"
    """heading of the column with the opponents"""
    digits: int = 2
    """decimals of the numbers"""


class GameResult(NamedTuple):
    """Comparison at the end of a game evolution."""

    scores: Scores
    """deciding scores of all contenders"""
    opponents: Sequence[str]
    cells: Cells


class GameStudy(Study):
    """Base of studies that evolve a player or a channel and compare it on fresh seeds."""

    format: Format
    judged: GameResult | None = None
    """the comparison, once it is made"""

    def judge(
        self,
        learned: Mapping[str, MetaParams],
        figures: Path,
        check_stop: Callable[[], None],
    ) -> GameResult:
        """Compare evolved meta-parameters, which come first, with hand-written contenders."""
        raise NotImplementedError

    def compare(
        self,
        learned: Mapping[str, MetaParams],
        path: Path,
        *,
        check_stop: Callable[[], None],
        only_unseen: bool = False,
    ) -> dict[str, Scores]:
        """Return the scores; none if `evaluation.seeds` is 0."""
        del only_unseen
        if not self.settings.evaluation.seeds:
            return {}
        self.judged = self.judge(learned, path / "figures", check_stop)
        self.judged.scores.save(path / f"{SCORES}.npz")
        pairs = {"opponents": self.judged.opponents, "contenders": self.judged.cells}
        write_json_atomic(path / PAIRS, pairs)
        return {SCORES: self.judged.scores}

    def tables(self) -> list[Table]:
        """Return a table for each measure; rows are opponents, columns are contenders."""
        _, opponents, cells = self.judged or (None, (), {})
        shown = self.format
        tables: list[Table] = []
        for measure, title in shown.titles.items() if opponents else ():
            rows = []
            for place, opponent in enumerate(opponents):
                found = [row[place][measure] for row in cells.values()]
                rows.append([opponent, *(estimate(*each, decimals=shown.digits) for each in found)])
            note = "" if tables else shown.note
            tables.append(Table(title, [shown.corner, *cells], rows, note=note))
        return tables


class FreshAgents(Generic[R]):
    """A compiled function of an agent that trains from scratch, on the same seeds for everyone."""

    def __init__(
        self,
        settings: StudySettings,
        contenders: Iterable[str],
        run: Callable[[jax.Array, PlainDict], R],
        *,
        frames: int,
        bytes_per_agent: int,
    ):
        """Choose the seeds.

        `run` maps the key of an agent and its row, the parameters of a contender, to results.
        """
        self.contenders, self.frames = list(contenders), frames
        count = settings.evaluation.seeds
        self.keys = keys_for(settings.run.seed, Purpose.HELD_OUT, count)
        self.agents = len(self.contenders) * count
        chunk_size, num_devices = settings.evolution.chunk_size, settings.evolution.num_devices
        self.row_map = devices.RowMap(
            lambda row: run(jax.random.wrap_key_data(row["key"]), row),
            chunk_size=chunk_size
            or devices.choose_chunk_size(self.agents, bytes_per_agent, num_devices),
            num_devices=num_devices,
        )

    def __call__(
        self,
        make_row: Callable[[jax.Array, str], PlainDict],
        stage: str,
        check_stop: Callable[[], None],
    ) -> dict[str, R]:
        """Return results by contender, with fields [seeds, ...].

        `make_row` maps the key of an agent and the name of a contender to a row of arrays.
        """
        found = []
        for name in self.contenders:
            rows = jax.vmap(lambda key, name=name: make_row(key, name))(self.keys)
            found.append(jax.device_get({"key": jax.random.key_data(self.keys), **rows}))
        table = jax.tree.map(lambda *leaves: np.concatenate(leaves), *found)
        total = self.frames * self.agents
        with Progress(
            total=total, desc=stage, unit="frame", unit_scale=True, check_stop=check_stop
        ) as bar:
            results = self.row_map(table, lambda agents: bar.update(agents * self.frames))
        count = len(self.keys)
        return {
            name: jax.tree.map(lambda leaf, at=place * count: leaf[at : at + count], results)
            for place, name in enumerate(self.contenders)
        }
