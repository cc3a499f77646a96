"""Reports: well-formed, self-contained, escaped; tables alike in HTML and in the terminal."""

import base64
from html.parser import HTMLParser

import pytest

from metaevo.reports import page as report

VOID = {"meta", "img"}
HOSTILE = "<script>alert('x')</script> & \"quotes\" \x1b[2J"
# One grey pixel.
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=="
)


class Page(HTMLParser):
    """Elements and text of a page; fails where an element is not closed in order."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.text, self._open = [], "", []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.text += data

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture
def png(tmp_path):
    path = tmp_path / "figure.png"
    path.write_bytes(PNG)
    return path


def scores(**changed):
    columns, rows = ["variant", "IQM"], [["learned", 1.5], ["squared", 20.0]]
    return report.Table("Scores", columns, rows, **changed)


def test_a_whole_report_is_one_well_formed_file(tmp_path, png):
    path = tmp_path / "new" / "report.html"
    sections = [
        report.Text("Conclusion", ["First.", "Second."]),
        scores(note="8 seeds", highlight=0),
        report.Image("Figure", png, "A caption"),
        report.KeyValues("Settings", {"task": {"env": "CartPole-v1"}, "seeds": 8}),
    ]
    assert report.write_report(path, "Title", "Subtitle", sections) == path
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    page = Page(text)
    for word in ("Title", "Subtitle", "First.", "8 seeds", "A caption", "task.env", "CartPole-v1"):
        assert word in page.text
    (image,) = page.all("img")
    assert base64.b64decode(image["src"].removeprefix("data:image/png;base64,")) == PNG
    # Nothing is loaded from anywhere, and nothing runs.
    assert "http" not in text
    assert not {"script", "link", "iframe"} & {tag for tag, _ in page.elements}
    assert "url(" not in text
    assert "@import" not in text
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]


def test_hostile_text_is_shown_not_interpreted(tmp_path, png):
    sections = [
        report.Text(HOSTILE, HOSTILE),
        report.Table(HOSTILE, [HOSTILE], [[HOSTILE]], note=HOSTILE),
        report.Image(HOSTILE, png, HOSTILE),
        report.KeyValues(HOSTILE, {HOSTILE: HOSTILE, "deep": {HOSTILE: [HOSTILE]}}),
    ]
    path = report.write_report(tmp_path / "r.html", HOSTILE, HOSTILE, sections)
    page = Page(path.read_text(encoding="utf-8"))
    assert not page.all("script")
    assert page.all("img")[0]["alt"] == HOSTILE
    assert page.text.count(HOSTILE) >= 12


def test_a_name_that_is_no_unicode_is_shown_escaped(tmp_path):
    name = b"run-\xff".decode("utf-8", "surrogateescape")
    path = report.write_report(tmp_path / "r.html", name, "", [])
    assert r"run-\udcff" in path.read_text(encoding="utf-8")


def test_a_report_that_fails_leaves_the_old_one(tmp_path):
    path = report.write_report(tmp_path / "r.html", "old", "", [])
    before = path.read_bytes()
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"not a figure")
    for image, error in ((broken, ValueError), (tmp_path / "missing.png", ValueError)):
        with pytest.raises(error):
            report.write_report(path, "new", "", [report.Image("", image)])
    assert path.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["broken.png", "r.html"]


def test_a_failed_replacement_leaves_no_temporary_file(tmp_path):
    (tmp_path / "r.html").mkdir()  # cannot be replaced by a file
    with pytest.raises(OSError, match=r"r\.html"):
        report.write_report(tmp_path / "r.html", "", "", [])
    assert [file.name for file in tmp_path.iterdir()] == ["r.html"]


def test_terminal_table():
    columns = ["variant", "IQM", "interval"]
    rows = [
        ["learned", 1.5, (1.0, 2.0)],
        ["squared error", 20.0, (10.0, 30.0)],
        ["Huber", None, None],
    ]
    assert report.terminal_table(columns, rows, highlight=0).splitlines() == [
        "  variant          IQM        interval",
        "  ─────────────  ─────  ──────────────",
        "> learned         1.50    [1.00, 2.00]",
        "  squared error  20.00  [10.00, 30.00]",
        "  Huber              -               -",
    ]


def test_rows_must_fit_the_columns():
    table = report.Table("", ["a", "b"], [[1, 2], [1, 2, 3]])
    for call in (table.text, table.html):
        with pytest.raises(ValueError, match="row 1 has 3 cells for 2 columns"):
            call()


def test_names_cannot_steer_the_terminal():
    printed = report.terminal_table(["name"], [["a\x1b[2Jb\nc\u202e"]])
    assert printed.splitlines()[-1] == "  a?[2Jb?c?"


def test_a_table_fits_the_terminal_by_folding_between_words():
    columns = ["variant", "IQM", "95% interval", "P(learned is better)", "diverged"]
    rows = [
        ["learned (same hyperparameters)", 1.0, "[0.1234, 1.234]", "0.53 [0.25, 0.80]", 0],
        ["clipped_squared (tuned)", 12345.0, "[-1.5, 2]", "", 3],
    ]
    wide = report.terminal_table(columns, rows)
    assert report.terminal_table(columns, rows, width=200) == wide
    narrow = report.terminal_table(columns, rows, [0], width=72).splitlines()
    assert max(map(len, wide.splitlines())) > 72 >= max(map(len, narrow))
    words = [word for line in narrow for word in line.split()]
    assert {"clipped_squared", "[0.1234,", "hyperparameters)", "better)"} <= set(words)
    assert any("[0.1234, 1.234]" in line for line in narrow)  # in one piece
    assert sum(line.startswith(">") for line in narrow) == 1
    impossible = report.terminal_table(columns, rows, width=10).splitlines()
    assert any("clipped_squared" in line for line in impossible)
