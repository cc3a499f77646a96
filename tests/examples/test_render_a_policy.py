import re
from pathlib import Path

import pytest
from PIL import Image

from metaevo.commands import train as training

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
