"""Other results of a strategy than the best: a table and a figure."""

from pathlib import Path

from metaevo.config import checks
from metaevo.config.files import read_json
from metaevo.reports.formula_plots import plot_front
from metaevo.reports.numbers import number
from metaevo.reports.page import Table
from metaevo.runs.run_directory import RunDirectory

FRONT = "front.png"
CAPTIONS = {
    FRONT: "The front of score against length at the end: each program scores more than all "
    "shorter ones, on the search seeds. The score is a mean less its standard error. A program "
    "that was trained in few generations (hollow) may have been lucky.",
}
Rows = list[dict[str, int | float | str]]


def tables(directory: RunDirectory) -> list[Table]:
    """Return the other results as a table, if the strategy has any."""
    rows = _rows(directory.others_path)
    if not rows:
        return []
    cells = [[_cell(each) for each in row.values()] for row in rows]
    return [Table("Other results of the strategy", list(rows[0]), cells)]


def draw(directory: RunDirectory, figures: Path) -> None:
    """Draw other results that have a length and a score as a front."""
    rows = _rows(directory.others_path)
    if rows and {"length", "score"} <= rows[0].keys():
        plot_front(rows, figures / FRONT)


def _rows(path: Path) -> Rows:
    return checks.check(Rows, read_json(path), str(path)) if path.exists() else []


def _cell(value: float | str) -> str:
    return number(value) if isinstance(value, float) else str(value)
