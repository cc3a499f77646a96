"""Write the generated blocks of the pages: `make pages`.

A block stands between `<!-- begin generated: WHAT -->` and `<!-- end generated -->`. WHAT is one of

- `results ppo`: the tables of docs/results/ppo.json, followed by day, machine and command;
  `results ppo, CartPole-v1`: only the table with this title;
- `settings train purerl.ppo.Config`: the settings of a section of the config;
- `api metaevo.Scores: verdict iqm`: signature and docstring of a function or class, of a class
  with the named members, and without a heading as `text NAME`;
- `file examples/reinforce.py`: a program;
- `kills`, `zoo`, `generality`, `discogen`: the killed runs, the entries of the zoo, the rows of
  both benchmarks.

The results are written by `experiments/benchmark.py SUITE --save FILE`, by `python -m
tests.faults.kills` and by docs/record.py.
"""

import re
from pathlib import Path

import signatures
import tables

DOCS = Path(__file__).resolve().parent
BLOCK = re.compile(
    r"^<!-- begin generated: (.+?) -->\n.*?^<!-- end generated -->$", re.DOTALL | re.MULTILINE
)


def generated(what: str) -> str:
    """Return the content of a block in Markdown.

    Raises:
        ValueError: if there is no such block.
    """
    kind, _, argument = what.partition(" ")
    if kind == "results":
        return tables.results(*argument.split(", ", 1))
    if kind == "settings":
        return tables.settings(*argument.split(" "))
    if kind in ("api", "text"):
        name, _, members = argument.partition(": ")
        return signatures.describe(name, members.split(), heading=kind == "api")
    if kind == "file":
        return f"```python\n{(DOCS.parent / argument).read_text(encoding='utf-8')}```"
    if kind in ("kills", "zoo", "generality", "discogen"):
        return getattr(tables, kind)()
    raise ValueError(f"{what}: no such block; docs/pages.py has a list")


def filled(page: str) -> str:
    """Return a page with the content of its blocks made anew."""

    def fill(block: re.Match[str]) -> str:
        what = block[1]
        return f"<!-- begin generated: {what} -->\n\n{generated(what)}\n\n<!-- end generated -->"

    return BLOCK.sub(fill, page)


def main() -> None:
    """Write all pages that have changed."""
    for path in sorted(DOCS.rglob("*.md")):
        old = path.read_text(encoding="utf-8")
        new = filled(old)
        if new != old:
            path.write_text(new, encoding="utf-8")
            print(path.relative_to(DOCS.parent))


if __name__ == "__main__":
    main()
