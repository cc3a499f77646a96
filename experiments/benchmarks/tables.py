"""Markdown tables, printed row by row."""

Cell = str | int | float | None


class Table:
    """A table; its first column is aligned left, others right."""

    def __init__(self, *columns: str):
        """Print the head."""
        self.columns, self.rows = columns, list[list[str]]()
        for line in self._head():
            print(line, flush=True)

    def row(self, *cells: Cell) -> None:
        """Print a row."""
        assert len(cells) == len(self.columns), cells
        self.rows.append([_text(cell) for cell in cells])
        print(_line(self.rows[-1]), flush=True)

    def markdown(self) -> str:
        """Return the whole table."""
        return "\n".join([*self._head(), *map(_line, self.rows)])

    def _head(self) -> list[str]:
        marks = ["---", *["---:"] * (len(self.columns) - 1)]
        return ["", _line(list(self.columns)), _line(marks)]


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(cell: Cell) -> str:
    if cell is None or cell != cell:
        return ""
    if isinstance(cell, int):
        return f"{cell:,}"
    return cell if isinstance(cell, str) else number(cell)


def number(value: float, digits: int = 3) -> str:
    """Format a value with a number of significant digits and commas between thousands."""
    rounded = float(f"{value:.{digits}g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 10 ** (digits - 1) else f"{rounded:g}"
