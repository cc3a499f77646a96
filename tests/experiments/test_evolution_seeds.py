"""Several evolutions as a real process: killed, resumed, refused."""

import json
import signal
import time

import pytest

from tests.experiments.evolving import assert_same_run, finish, start, wait_for_generations

pytestmark = pytest.mark.long

GENERATIONS = 60
TINY = f"""
learner: q_learning
task: {{env: GridWorld, env_params: {{size: 4}}}}
train: {{total_timesteps: 2000, num_steps: 50}}
hyperparams: {{learning_rate: 0.2, epsilon_start: 0.1}}
component: {{hidden_sizes: [4], start: random}}
fitness: {{mean_return: 0.0, reward_per_step: 200.0}}
strategy: {{population_size: 8, sigma: 0.5}}
evolution: {{generations: {GENERATIONS}, validation_every: 4, validation_seeds: 4, chunk_size: 1,
            block_seconds: 0.02}}
evaluation: {{seeds: 8, tuning_seeds: 2, ablation_seeds: 0, sampler: grid,
             space: {{learning_rate: [0.1, 0.3]}}}}
run: {{checkpoint_every: 7}}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    path = tmp_path_factory.mktemp("seeds")
    (path / "tiny.yaml").write_text(TINY)
    return path


@pytest.fixture(scope="module")
def reference(place):
    """A run that nobody interrupts."""
    stdout, _ = finish(start(place, place / "reference", "--evolution-seeds", "2"))
    assert stdout.splitlines()[-3].startswith("Better than the best tuned hand-written one (")
    assert stdout.splitlines()[-1] == f"report: {place / 'reference' / 'report.html'}"
    return place / "reference"


def kill(process):
    process.kill()
    finish(process, -signal.SIGKILL)


def test_killed_in_the_second_and_in_the_comparison_it_ends_alike(place, reference, tmp_path):
    run_dir = tmp_path / "run"
    process = start(place, run_dir, "--evolution-seeds", "2")
    wait_for_generations(process, run_dir / "seed_1", 20)
    kill(process)
    first = (run_dir / "seed_0" / "metrics.jsonl").stat().st_mtime_ns
    assert not (run_dir / "report.html").exists()

    process = start(place, run_dir, new=False)
    wait_for_generations(process, run_dir / "seed_1", GENERATIONS)
    deadline = time.monotonic() + 240
    while not list(run_dir.glob("tuning/*/race.json")):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.002)
    kill(process)
    assert not (run_dir / "report.html").exists()

    finish(start(place, run_dir, new=False))
    assert first == (run_dir / "seed_0" / "metrics.jsonl").stat().st_mtime_ns
    for seed in range(2):
        assert_same_run(run_dir / f"seed_{seed}", reference / f"seed_{seed}", GENERATIONS)
    results = [json.loads((path / "evaluation.json").read_text()) for path in (run_dir, reference)]
    assert results[0] == results[1]
    assert (run_dir / "report.html").exists()
