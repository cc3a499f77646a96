"""The comparison of kernels on a GPU runs on a CPU, which interprets them."""

import json

import pytest

from experiments.benchmarks import kernels


@pytest.mark.long
def test_it_runs_where_there_is_no_gpu(tmp_path, monkeypatch):
    # The others are trainings of the same kind, and take minutes to compile.
    monkeypatch.setattr(kernels, "PROGRAMS", (kernels.PROGRAMS[0], kernels.PROGRAMS[-1]))
    path = tmp_path / "kernels.json"
    assert kernels.main(["--tiny", "--save", str(path)]) == 0
    [table] = json.loads(path.read_text())["tables"]
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    found = [(row["program"], row["agents"], row["kernels"]) for row in rows]
    cases = [(name, f"{agents:,}", on) for name, agents in kernels.PROGRAMS for on in ("on", "off")]
    assert found == [*cases, (kernels.COMMITTED, "64", "chosen")]
    assert all(row["M frames/s: median [min, max]"] and not row["error"] for row in rows)
    ratios = [float(row["mean abs(log ratio)"]) for row in rows if row["mean abs(log ratio)"]]
    assert len(ratios) == 2
    assert all(0 <= ratio < 1e-4 for ratio in ratios)
