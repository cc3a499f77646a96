import ast
import json
import re
import runpy
from pathlib import Path

import pytest
from PIL import Image

from metaevo.commands import train as training
from tests.processes import ROOT

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
@pytest.mark.filterwarnings("default")
def test_every_cell_runs_as_plain_python(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    cells = ["".join(cell["source"]) for cell in CODE]
    (sizes,) = (index for index, cell in enumerate(cells) if cell.startswith("AGENTS = "))
    cells[sizes] = SIZES
    Path("walkthrough.py").write_text("\n".join(cells), encoding="utf-8")
    runpy.run_path("walkthrough.py")
    assert "cartpole" in capsys.readouterr().out


@pytest.mark.parametrize(
    "link", sorted(set(re.findall(r"\]\(([^)]+)\)", "".join("".join(c["source"]) for c in TEXT))))
)
def test_links_lead_somewhere(link: str):
    assert (PATH.parent / link.split("#")[0]).exists()


PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "train.md"


@pytest.mark.long
def test_the_page_loads_a_policy_acts_and_renders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = (
        "--learner ppo --seeds 1 --task.env CartPole-v1 --run-dir runs/ppo --quick "
        "--train.total_timesteps 512 --evaluation.episodes 1"
    )
    assert training.main(line.split()) == 0
    with Image.open("runs/ppo/figures/episode.gif") as film:
        recorded = film.n_frames
    section = PAGE.read_text().partition("## Load a policy, act, render")[2].partition("\n## ")[0]
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", section, re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    with Image.open("episode.gif") as film:
        assert film.n_frames > 1
    assert recorded > 1
    # one frame a step of reward 1, and that of the reset
    assert len(names["frames"]) == int(names["total"]) + 1
