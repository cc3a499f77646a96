"""experiments/benchmark.py at sizes that measure nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from experiments.benchmarks import commits, evolution, figures, flops, tasks, training, tuning
from experiments.benchmarks.comparison import Comparison
from experiments.benchmarks.processes import BenchmarkError, Variant, Worker, alternate
from purerl.fast.activations import tanh

pytestmark = pytest.mark.long

SCRIPT = Path(__file__).resolve().parent.parent.parent / "experiments" / "benchmark.py"
FAKE = """
import json, sys
seconds = float(sys.argv[1])
print(json.dumps({"layout": "fake", "flops_per_unit": 10.0, "platform": "cpu"}), flush=True)
for _ in sys.stdin:
    print(json.dumps({"seconds": seconds, "cpu_seconds": 2 * seconds}), flush=True)
"""
"""A worker that says how long it took and does nothing."""


def benchmark(*arguments):
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        capture_output=True, text=True, timeout=550, env=os.environ, check=False,
    )  # fmt: skip


def fake(seconds):
    return Variant([sys.executable, "-c", FAKE, str(seconds)])


def table(output):
    """The rows of the tables in markdown, as lists of cells."""
    rows = [line.strip("| ").split(" | ") for line in output.splitlines() if line.startswith("|")]
    return [row for row in rows if not row[0].startswith("---")]


@pytest.mark.parametrize(
    "others", [["other"], pytest.param(["flat vmap", "other"], marks=pytest.mark.slow)]
)
def test_ppo_prints_how_much_faster_it_is(tmp_path, others):
    file, saved, script = (tmp_path / name for name in ("results.json", "ppo.json", "fake.py"))
    script.write_text(FAKE)
    command = f"other={sys.executable} {script} {{agents}}"
    done = benchmark(
        "ppo", "--tasks", "CartPole-v1", "--agents", "2", "--frames", "2048", "--repeats", "1",
        "--only", *others, "--external", command, "--json", str(file),
        "--save", str(saved),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = json.loads(file.read_text())
    page = json.loads(saved.read_text())
    assert page["command"].startswith("python experiments/benchmark.py ppo --tasks CartPole-v1")
    assert str(script) not in page["command"]
    assert page["machine"]["jax"] == results["machine"]["jax"]
    (kept,) = page["tables"]
    assert [kept["columns"], *kept["rows"]] == table(done.stdout)
    assert results["machine"]["jax"]
    rows = {row["variant"]: row for row in results["ppo"]["rows"]}
    assert list(rows) == ["ours", *others, "matrix products"]
    assert all(0 < row["min"] <= row["median"] <= row["max"] for row in rows.values())
    assert rows["other"]["median"] == 2048 / 2
    for name in others:
        assert rows[name]["ours_is_faster"]["median"] == pytest.approx(
            rows["ours"]["rates"][0] / rows[name]["rates"][0]
        )
    # The products of matrices alone are 250 kFLOP a step with initialisation; see FACTS.
    assert 2e5 < rows["ours"]["flops_per_unit"] < 6e5
    assert rows["ours"]["compile_seconds"] > 0
    assert rows["ours"]["peak_bytes"] > 2**26
    assert [row[2] for row in table(done.stdout)][1:] == list(rows)


def test_variants_are_compared(capsys):
    comparison = Comparison("steps", "agents", products=False)
    skip = json.dumps({"skip": "no such work"})
    none = Variant([sys.executable, "-c", f"print({skip!r})"])
    variants = {"ours": fake(0.5), "other": fake(2.0), "none": none}
    comparison.case(variants, 100, 2, 7, aims={"cpu": {"other": 5.0}})
    ours, other = comparison.rows
    assert ours["median"] == 200
    assert ours["flops_per_second"] == 2000
    assert ours["per_cpu_second"] == 100
    assert other["ours_is_faster"] == {"min": 4, "median": 4, "max": 4}
    printed = capsys.readouterr()
    assert "| 7 | other | 50 [50, 50] | 25 | 4 [4, 4] (aim 5: MISSED) |" in printed.out
    assert "none is left out: no such work" in printed.err


def test_variants_are_measured_in_turns():
    class Stub:
        def measure(self):
            return {"seconds": 1.0}

    order = [name for name, _ in alternate({"A": Stub(), "B": Stub()}, 2)]
    assert order == ["A", "B", "A", "B"]


def test_a_worker_that_does_not_speak_the_protocol():
    variant = Variant([sys.executable, "-c", "print('hello')"])
    with pytest.raises(BenchmarkError, match="other: not a line of JSON: hello"):
        Worker("other", variant)


def test_a_worker_that_ends():
    variant = Variant([sys.executable, "-c", "raise SystemExit(3)"])
    with pytest.raises(BenchmarkError, match="other: its process ended with code 3"):
        Worker("other", variant)


def test_a_peer_that_fails_is_reported_and_the_others_are_measured(capsys):
    comparison = Comparison("steps", "agents", products=False)
    broken = Variant([sys.executable, "-c", "raise SystemExit(3)"])
    comparison.case({"ours": fake(1.0), "broken": broken, "other": fake(1.0)}, 1, 1, 7)
    assert [row["variant"] for row in comparison.rows] == ["ours", "other"]
    (failure,) = comparison.failures
    assert (failure["agents"], failure["variant"]) == (7, "broken")
    assert "error: 7: broken: its process ended with code 3; left out" in capsys.readouterr().err
    comparison.case({"ours": broken, "other": fake(1.0)}, 1, 1, 8)  # nothing to hold against
    assert comparison.failures[1]["variant"] == "ours"
    ends = Variant([sys.executable, "-c", "print('{}', flush=True); input()"])
    comparison.case({"ours": fake(1.0), "ends": ends}, 1, 1, 9)
    assert "ends: its process ended with code 0" in comparison.failures[2]["error"]
    assert len(comparison.rows) == 2


def test_a_measurement_is_at_most_a_whole_training():
    cartpole = tasks.WORK["ppo", "CartPole-v1"]
    assert training.count_updates(cartpole, 1, None) == 500_000 // 512
    assert training.count_updates(cartpole, 256, None) == 8
    assert training.count_updates(cartpole, 2048, None) == training.MIN_UPDATES
    assert training.count_updates(cartpole, 1, 2048) == 4
    assert training.count_updates(cartpole, 8, 2048) == 2


def test_figure(tmp_path):
    def row(variant, agents, rate):
        spread = {"min": 0.9 * rate, "median": rate, "max": 1.2 * rate}
        return {"task": "CartPole-v1", "variant": variant, "agents": agents, **spread}

    rows = [row("ours", 64, 5e5), row("ours", 1, 2e5), row("other", 1, 1e5)]
    figures.draw({"ppo": {"rows": [*rows, row("matrix products", 1, 1e11)]}}, tmp_path / "a.svg")
    drawn = (tmp_path / "a.svg").read_text()
    # Bars of two variants, none of the products, in the panel and in the legend.
    assert drawn.count('id="LineCollection_') == 4
    (tmp_path / "results.json").write_text(json.dumps({"ppo": {"rows": rows}, "machine": {}}))
    figures.main(str(tmp_path / "results.json"), str(tmp_path / "c.svg"))
    assert (tmp_path / "c.svg").read_text().count('id="LineCollection_') == 4
    with pytest.raises(BenchmarkError, match="nothing of ppo and dqn was measured"):
        figures.draw({"sweep": {"rows": rows}}, tmp_path / "b.svg")


def test_operations_of_loops_are_counted_in_every_round():
    matrix, product = jnp.ones((32, 32)), 2 * 32**3

    def rounds(count):
        def body(x):
            return jax.lax.scan(lambda c, _: (jax.jit(jnp.matmul)(c, x), None), x, length=count)[0]

        return body

    # What the count rests on: XLA's own analysis takes a loop's body once.
    once, ten = (jax.jit(rounds(n)).lower(matrix).cost_analysis()["flops"] for n in (1, 10))
    assert once == ten
    assert flops.count(rounds(10), matrix) == pytest.approx(10 * product, rel=1e-3)

    def nested(x):
        return jax.lax.scan(lambda c, _: (rounds(5)(c), None), x, length=4)[0]

    assert flops.count(nested, matrix) == pytest.approx(20 * product, rel=1e-3)
    # A tanh is none of them, as in a peer, though ours spells it out where that is faster.
    assert jax.jit(tanh).lower(matrix).cost_analysis()["flops"] > 20 * matrix.size
    assert flops.count(tanh, matrix) == flops.count(jnp.tanh, matrix) == 0


@pytest.mark.slow
def test_q_learning_prints_ratios_and_targets():
    done = benchmark("q-learning", "--agent-steps", "1000", "--repeats", "1")
    assert done.returncode == 0, done.stderr
    rows = [row for row in table(done.stdout) if "(aim" in row[3]]
    assert [row[0].split()[0] for row in rows] == ["1", "30", "1,024"]
    assert all(f"(aim {goal}: " in row[3] for goal, row in zip([40, 120, 400], rows, strict=True))


@pytest.mark.slow
def test_learned_rules_against_hand_written_and_others(tmp_path):
    """The rule of 203,946 numbers in its slot beside a2c, and somebody else's worker."""
    worker = tmp_path / "fake.py"
    worker.write_text(FAKE)
    other = f"GROOVE={sys.executable} {worker} 0.5"
    arguments = ["--tasks", "GridWorlds", "--agents", "1", "--frames", "2560", "--repeats", "1"]
    done = benchmark("learned-rules", *arguments, "--external", other)
    assert done.returncode == 0, done.stderr
    rows = {row[3]: row for row in table(done.stdout)}
    assert {"ours", "a2c", "GROOVE"} <= set(rows)
    assert rows["ours"][:3] == ["lpg", "GridWorlds", "1"]
    assert "(aim 2: " in rows["GROOVE"][6]


@pytest.mark.slow
def test_dqn_prints_a_ratio_and_may_lack_peers():
    done = benchmark("dqn", "--agents", "2", "--frames", "4000", "--repeats", "1", "--peers")
    assert done.returncode == 0, done.stderr
    names = [row[2] for row in table(done.stdout)]
    assert {"ours", "flat vmap"} <= set(names)
    assert ("rejax is not installed" in done.stderr) or ("rejax" in names)


@pytest.mark.slow  # make test-slow; the quick preset's generations take seconds each
def test_evolution_prints_frames_and_costs(tmp_path):
    file = tmp_path / "results.json"
    done = benchmark(
        "evolution", "--shape", "ppo", "blog", "--population", "4", "--agent-steps", "2048",
        "--generations", "1", "--repeats", "1", "--json", str(file),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = json.loads(file.read_text())["evolution"]
    assert [row["variant"] for row in results["rows"]] == ["ours", "matrix products"] * 2
    assert len(results["costs"]) == 10
    assert all(cost["share"] > 0 for cost in results["costs"])


def test_compile_is_timed_cold_and_cached(tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    file = tmp_path / "results.json"
    done = benchmark("compile", "--programs", "q-learning", "--repeats", "1", "--json", str(file))
    assert done.returncode == 0, done.stderr
    cold, cached = json.loads(file.read_text())["compile"]["rows"]
    assert (cold["variant"], cached["variant"]) == ("cold", "cached")
    for row in (cold, cached):
        (measured,) = row["measured"]
        assert measured["trace_seconds"] > 0
        assert measured["compile_seconds"] > 0
        assert Path(measured["package"]).is_relative_to(SCRIPT.parent.parent)
    assert cold["measured"][0]["cache_hits"] == 0
    assert cached["measured"][0]["cache_hits"] >= 1


def test_files_of_another_commit():
    if not commits.is_commit("HEAD"):
        pytest.skip("not a git repository")
    with commits.files_of("HEAD") as folder:
        assert (folder / "purerl" / "ppo.py").is_file()
        assert any((folder / "configs" / "evolve_value_loss").glob("*.yaml"))
    assert not folder.exists()


@pytest.mark.slow
def test_compile_is_compared_with_another_commit():
    done = benchmark("compile", "--programs", "q-learning", "--repeats", "1", "--against", "HEAD")
    assert done.returncode == 0, done.stderr
    assert [row[1] for row in table(done.stdout)][1:] == ["cold", "cached", "HEAD"]


@pytest.mark.slow
def test_learning_here_and_in_another_commit():
    done = benchmark(
        "learning", "--tasks", "CartPole-v1", "--seeds", "3", "--agent-steps", "8192",
        "--against", "HEAD",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = [row for row in table(done.stdout) if row[0] == "CartPole-v1"]
    assert len(rows) == 3
    assert all(here == there for _, _, here, there, _ in rows)  # unless something is not committed


def test_environments_against_gymnasium(tmp_path):
    file = tmp_path / "results.json"
    done = benchmark(
        "environments", "--environments", "CartPole-v1", "--num-envs", "3",
        "--frames", "300", "--repeats", "1", "--peers", "--json", str(file),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text())["environments"]["rows"]
    assert [row["variant"] for row in rows] == ["ours", "one device", "Gymnasium, sync"]


@pytest.mark.slow
def test_robots_against_the_ppo_of_brax():
    pytest.importorskip("brax")
    done = benchmark("robots", "--agent-steps", "16384", "--repeats", "1")
    assert done.returncode == 0, done.stderr
    rows = {row[0]: row[1:] for row in table(done.stdout)[1:]}
    assert list(rows) == ["ours", "brax's PPO", "the robot alone, random actions"]
    assert "(aim 1: " in rows["brax's PPO"][1]
    assert float(rows["ours"][2].split(" ")[0].replace(",", "")) != 0  # a return


@pytest.mark.slow
def test_devices_scale_weakly_and_strongly(tmp_path):
    file = tmp_path / "results.json"
    done = benchmark(
        "devices", "--agents", "1", "8", "--frames", "1024", "--repeats", "1", "--json", str(file)
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text())["devices"]["rows"]
    assert [row["devices"] for row in rows] == [1, 2, 4, 8] * 2
    assert [row["agents"] for row in rows] == [1, 2, 4, 8] + [8] * 4
    assert all(row["efficiency"] == row["faster"]["median"] / row["devices"] for row in rows)


@pytest.mark.slow
def test_sweep_prints_trials_a_minute_and_ratios():
    done = benchmark("sweep", "--trials", "8", "--repeats", "1")
    assert done.returncode == 0, done.stderr
    assert "trials a minute" in done.stdout
    assert done.stdout.count("(aim 5: ") == 3


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["speed"], "unknown suite speed"),
        (["--agents", "0"], "must be at least 1"),
        (["--frames", "1e5"], "'1e5' must be a whole number"),
        (["--generations", "65"], "at most 64"),
        (["--json", "missing/results.json"], "does not exist"),
        (["--tasks", "Pong"], "invalid choice: 'Pong'"),
        (["--against", "no_such_commit_"], "git knows no such commit"),
        (["learning"], "learning needs --against"),
        (["--only", "nobody"], "--only nobody: not among flat vmap"),
        (["ppo", "--figure", "a.txt"], "must end in .png, .svg or .pdf"),
        (["--json", "."], "is a directory"),
        (["ppo", "dqn", "--save", "a.json"], "--save keeps the tables of a single suite"),
        (["dqn", "--tasks", "Breakout-MinAtar"], "dqn has none of these tasks"),
        (["sweep", "--figure", "a.png"], "--figure shows the suites ppo and dqn"),
        (["--shape", "round"], "invalid choice: 'round'"),
        (["--external", "no command"], "must be NAME=COMMAND"),
        (["--external", "a=no_such_program_"], "there is no program no_such_program_"),
        (["--external", "a=echo {speed}"], "'speed'; fields: {suite}, {task}"),
    ],
)
def test_bad_input(arguments, text):
    done = benchmark(*arguments)
    assert done.returncode == 2
    assert text in done.stderr
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) == 1


def test_the_shapes_of_evolution_are_presets():
    for shape in evolution.SHAPES:
        assert (evolution.CONFIGS / f"{shape}.yaml").is_file()
    assert tuning.CONFIG.is_file()
