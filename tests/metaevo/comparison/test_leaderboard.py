"""The page of the leaderboard: order, filters, pictures."""

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


@pytest.mark.parametrize("each", rows.entered(), ids=lambda row: row["rule"])
def test_rows_on_record_are_shown(each):
    found = Page(leaderboard.html(rows.entered()))
    assert each["rule"] in found.rules["all"]
