"""The page of the leaderboard: the order of its rows."""

import html
import re

import pytest

from metaevo.comparison.generality import leaderboard, rows


def part(iqm):
    return {"iqm": iqm, "interval": [iqm - 0.1, iqm + 0.1], "tasks": 5}


def row(rule, slot, score, control):
    families = {"control": None if control is None else part(control)}
    families |= {"grids": part(0.5), "arcade": part(0.5)}
    horizons = {"short": part(score), "medium": part(score), "long": None}
    return {
        "rule": rule, "slot": slot, "score": part(score), "families": families, "horizons": horizons
    }  # fmt: skip


ROWS = [
    row("adam", "make_optimizer", 1.0, 0.2),
    row("<b>", "make_optimizer", 0.5, 3.0),
    row("dpo", "policy_loss", 0.75, None),
]


def rules_by_view(text):
    """The rules of each table of the page, from top to bottom."""
    _, *tables = text.split('data-view="')
    return {each.split('"')[0]: re.findall(r"<code>(.*?)</code>", each) for each in tables}


def test_each_view_has_its_own_order():
    shown = rules_by_view(leaderboard.html(ROWS))
    assert shown["all"] == ["adam", "dpo", "&lt;b&gt;"]
    assert shown["control"] == ["&lt;b&gt;", "adam"]  # dpo has seen all of it


def test_recorded_rows_are_shown():
    recorded = rows.entered()
    shown = rules_by_view(leaderboard.html(recorded))["all"]
    assert sorted(map(html.unescape, shown)) == sorted(row["rule"] for row in recorded)


@pytest.mark.parametrize(
    ("rule", "kind"),
    [("adam", "written"), ("dqn", "written"), ("celo", "learned"), ("disco", "learned")],
)
def test_learned_rules_have_their_own_colour(rule, kind):
    (row,) = [each for each in rows.entered() if each["rule"] == rule]
    shown = leaderboard.html([row])
    assert [each for each in ("learned", "written") if f'<circle class="{each}"' in shown] == [kind]
