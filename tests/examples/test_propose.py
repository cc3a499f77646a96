"""examples/propose.py writes expressions of the language, and improves its archive."""

import json
import random

import pytest

from examples import propose
from metaevo.components.expressions import parse
from tests.metaevo.discovery.test_proposals import TASKS


def problem(expression, names):
    try:
        parse(expression, names, {})
    except ValueError as error:
        return str(error)
    return ""


def test_changes_stay_in_the_language_and_differ():
    rng, names = random.Random(0), ["error", "change"]
    expression, seen = "where(error > 0, tanh(error) * 2, -error)", set()
    for _ in range(300):
        new = propose.changed(rng, expression, names)
        found = problem(new, names)  # too large at most
        assert not found or "too long" in found or "finite" in found
        seen.add(new)
        expression = new if len(new) < 150 else expression
    assert len(seen) > 200


def test_the_first_proposals_are_random_and_the_others_have_parents():
    rng = random.Random(0)
    for each in propose.propose(rng, [], ["error"]):
        parse(each["expression"], ["error"], {})
    archive = [{"id": 7, "text": "error * 0.5"}, {"id": 3, "text": "error"}]
    proposals = propose.propose(rng, archive, ["error"])
    assert {each["parent"] for each in proposals} == {3, 7}


@pytest.mark.long
def test_it_improves_its_archive(tmp_path, capsys):
    tasks = {**TASKS, "evaluation": {"seeds": 0}}
    (tmp_path / "tasks.yaml").write_text(json.dumps(tasks))
    arguments = ["--slot", "value_loss", "--tasks", str(tmp_path / "tasks.yaml")]
    arguments += ["--names", "error", "--state", str(tmp_path / "state")]
    propose.main([*arguments, "--rounds", "3"])
    propose.main([*arguments, "--rounds", "1"])  # continues
    lines = capsys.readouterr().out.splitlines()
    scores = [float(line.split()[1]) for line in lines]
    assert len(scores) == 4
    assert scores[-1] >= scores[0]
