"""The page of the leaderboard: order, filters, pictures."""

import re
from html.parser import HTMLParser

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


class Page(HTMLParser):
    """The first cells of all rows by view, and whether every element is closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.rules, self.slots, self.view = [], {}, [], None
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.view = found.get("data-view", self.view)
        if "data-slot" in found:
            self.slots.append(found["data-slot"])
        if tag != "input":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_data(self, data):
        if self.open and self.open[-1] == "code":
            self.rules.setdefault(self.view, []).append(data)


def test_every_view_has_its_own_order():
    page = Page(leaderboard.html(ROWS))
    assert page.rules["all"] == ["adam", "dpo", "<b>"]
    assert page.rules["control"] == ["<b>", "adam"]  # dpo has seen all of it
    assert set(page.slots) == {"make_optimizer", "policy_loss"}


def test_filters_name_what_is_there():
    text = leaderboard.html(ROWS)
    chosen = set(re.findall(r":has\(#([\w-]+):checked\)", text))
    buttons = set(re.findall(r'id="([\w-]+)"', text))
    assert chosen <= buttons
    assert buttons - chosen == {"board-slot-all"}  # which hides no row
    assert text.count(" checked>") == 2
    assert "<script" not in text


def test_costs_are_shown_where_they_were_measured():
    costly = {**ROWS[0], "cost": {"task": "grid", "ratio": 2.0, "range": [1.5, 2.25]}}
    text = leaderboard.html([costly, ROWS[2]])
    assert text.count("<td>2.00 [1.50, 2.25]</td>") == 1  # in the view of all tasks
    assert text.count("<th>CPU</th>") == 1


def test_pictures_have_one_scale():
    """0 is at an eighth of the width and 1 at five eighths; what is beyond is at its edge."""
    text = leaderboard._picture(part(1.0), is_learned=True)
    assert re.findall(r"M([\d.]+) 0V", text) == ["20.0", "100.0"]
    assert 'cx="100.0"' in text
    assert 'cx="160.0"' in leaderboard._picture(part(3.0), is_learned=True)


@pytest.mark.parametrize("each", rows.entered(), ids=lambda row: row["rule"])
def test_rows_on_record_are_shown(each):
    found = Page(leaderboard.html(rows.entered()))
    assert each["rule"] in found.rules["all"]
