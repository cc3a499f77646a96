"""Reports: escaped text, damaged images, tables."""

import html

import pytest

from metaevo.reports import page as report

HOSTILE = "<script>alert('x')</script> & \"quotes\" \x1b[2J"
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def png(tmp_path):
    path = tmp_path / "figure.png"
    path.write_bytes(PNG)
    return path


def test_hostile_text_is_shown_not_interpreted(tmp_path, png):
    sections = [
        report.Text(HOSTILE, HOSTILE),
        report.Table(HOSTILE, [HOSTILE], [[HOSTILE]], note=HOSTILE),
        report.Image(HOSTILE, png, HOSTILE),
        report.KeyValues(HOSTILE, {HOSTILE: HOSTILE, "deep": {HOSTILE: [HOSTILE]}}),
    ]
    path = report.write_report(tmp_path / "r.html", HOSTILE, HOSTILE, sections)
    page = path.read_text(encoding="utf-8")
    assert "<script>" not in page
    assert page.count(html.escape(HOSTILE)) >= 12


def test_a_report_that_fails_leaves_the_old_one(tmp_path):
    path = report.write_report(tmp_path / "r.html", "old", "", [])
    before = path.read_bytes()
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"not a figure")
    for image in (broken, tmp_path / "missing.png"):
        with pytest.raises(ValueError, match=r"\.png"):
            report.write_report(path, "new", "", [report.Image("", image)])
    assert path.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["broken.png", "r.html"]


def test_rows_must_fit_the_columns_and_names_cannot_steer_the_terminal():
    table = report.Table("", ["a", "b"], [[1, 2], [1, 2, 3]])
    for call in (table.text, table.html):
        with pytest.raises(ValueError, match="row 1 has 3 cells for 2 columns"):
            call()
    printed = report.Table("", ["name"], [["a\x1b[2Jb\nc\u202e"]]).text()
    assert printed.splitlines()[-1].strip() == "a?[2Jb?c?"
