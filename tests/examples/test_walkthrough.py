import ast
import json
import os
import re
from pathlib import Path

import pytest

from tests.compiling import SHORT
from tests.processes import ROOT, python

PATH = ROOT / "examples" / "walkthrough.ipynb"
NOTEBOOK = json.loads(PATH.read_text(encoding="utf-8"))
CODE = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
TEXT = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "markdown"]


def test_it_imports_only_the_two_packages():
    tree = ast.parse("\n".join("".join(cell["source"]) for cell in CODE))
    names = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names += [a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names]
    ours = {name for name in names if name and name.startswith(("metaevo", "purerl"))}
    assert ours == {"metaevo", "purerl"}


SIZES = """
AGENTS, TRIALS, SETTINGS, HELD_OUT, STEPS = 4, 2, 2, 4, 200
GENERATIONS, POPULATION = 2, 4
"""


@pytest.mark.long
def test_every_cell_runs_as_plain_python(tmp_path: Path):
    cells = ["".join(cell["source"]) for cell in CODE]
    (sizes,) = (index for index, cell in enumerate(cells) if cell.startswith("AGENTS = "))
    cells[sizes] = SIZES
    script = tmp_path / "walkthrough.py"
    script.write_text("\n".join(cells), encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg"}
    env["XLA_FLAGS"] = SHORT  # it sets up its devices itself
    run = python(script, cwd=tmp_path, env=env)
    assert run.returncode == 0, run.stderr
    assert "cartpole" in run.stdout


@pytest.mark.parametrize(
    "link", sorted(set(re.findall(r"\]\(([^)]+)\)", "".join("".join(c["source"]) for c in TEXT))))
)
def test_links_lead_somewhere(link: str):
    assert (PATH.parent / link.split("#")[0]).exists()
