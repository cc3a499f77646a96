"""Whole runs as real processes: killed, stopped, resumed, refused, finished."""

import re
import signal

import pytest

import metaevo
from metaevo.config import load_yaml
from tests.experiments.evolving import (
    assert_same_run,
    checkpoints,
    finish,
    metrics,
    start,
    wait_for_generations,
)

pytestmark = pytest.mark.long

GENERATIONS = 160  # of some milliseconds each, so that there is time to interrupt
TINY = """
learner: q_learning
task: {env: GridWorld, env_params: {size: 4}}
train: {total_timesteps: 400, num_steps: 50}
hyperparams: {learning_rate: 0.2, epsilon_start: 0.1}
component: {hidden_sizes: [4], start: random}
fitness: {mean_return: 0.0, reward_per_step: 200.0}
strategy: {population_size: 8, sigma: 0.5, learning_rate_decay: 0.999}
evolution: {generations: 160, validation_every: 4, validation_seeds: 4, chunk_size: 1,
            block_size: 7}
evaluation: {seeds: 0}
"""


@pytest.fixture(scope="module")
def reference(place):
    run_dir = place / "reference"
    stdout, _ = finish(start(place, run_dir))
    assert f"report: {run_dir / 'report.html'}" in stdout
    return run_dir


def test_a_run_writes_all_files(reference):
    names = {path.name for path in reference.iterdir()}
    assert names >= {
        "config.yaml", "metrics.jsonl", "checkpoints", "meta_params.npz", "figures", "report.html"
    }  # fmt: skip
    assert checkpoints(reference) == ["000147", "000154", "000160"]
    saved = load_yaml(reference / "config.yaml")
    assert saved["config"]["strategy"]["population_size"] == 8
    assert saved["resolved"]["chunk_size"] == 1
    assert saved["resolved"]["num_devices"] == 2
    assert "experiments/evolve_value_loss.py" in saved["environment"]["command_line"]
    records = metrics(reference)
    validations = GENERATIONS // 4 + 1  # the last generation's too
    assert records[-1]["frames"] == 400 * (8 * GENERATIONS + 4 * validations)
    assert records[0]["fitness_mean"] != records[-1]["fitness_mean"]
    assert [each["fitness_of_mean"] is None for each in records[:5]] == [
        False, True, True, True, False
    ]  # fmt: skip
    assert records[-1]["fitness_of_mean"] is not None
    assert (reference / "figures" / "fitness.png").stat().st_size > 1000
    _, meta_params = metaevo.load(reference)
    assert meta_params[0]["kernel"].shape == (1, 4)


def test_a_stopped_and_killed_run_resumes_exactly(place, reference, tmp_path):
    run_dir = tmp_path / "stopped"
    process = start(place, run_dir)
    wait_for_generations(process, run_dir, 20)
    # Another process in the same directory is refused, whether it resumes or not.
    refused = start(place, run_dir), start(place, run_dir, new=False)
    process.send_signal(signal.SIGSTOP)  # so that it cannot end in the meantime
    errors = [finish(each, 2)[1] for each in refused]
    process.send_signal(signal.SIGCONT)
    assert errors[0].startswith("error: ")
    assert "already holds a run" in errors[0]
    assert re.fullmatch(rf"error: .* in use by another run \(process {process.pid}\)\n", errors[1])

    process.terminate()
    _, stderr = finish(process, 143)
    assert "--resume --run-dir" in stderr
    stopped = len(metrics(run_dir))
    assert checkpoints(run_dir)[-1] == f"{stopped:06d}"

    process = start(place, run_dir, new=False)
    wait_for_generations(process, run_dir, stopped + 20)
    process.kill()
    finish(process, -signal.SIGKILL)
    assert stopped < (run_dir / "metrics.jsonl").read_bytes().count(b"\n") < GENERATIONS
    finish(start(place, run_dir, new=False))
    assert_same_run(run_dir, reference, GENERATIONS)
