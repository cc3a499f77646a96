"""Generated settings are accepted, or refused in one line."""

import os

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from metaevo.config import dump_yaml
from tests.faults.fuzzing import SCRIPTS, attempts

EXAMPLES = int(os.environ.get("METAEVO_FUZZ_EXAMPLES", "5000"))
"""Of the long fuzzing, per script."""


def fuzz(name, examples, folder, *, derandomize=True):
    script, accepted = SCRIPTS[name], []

    @settings(
        max_examples=examples,
        derandomize=derandomize,
        database=None,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(attempts(script))
    def run(attempt):
        config, overrides = attempt
        path = folder / "config.yaml"
        path.write_text(dump_yaml(config), encoding="utf-8")
        argv = ["--config", str(path), "--run-dir", str(folder / "run"), *overrides]
        accepted.append(script.attempt(argv) is None)

    run()
    assert any(accepted), "if nothing is accepted, this shows nothing"
    assert not (folder / "run").exists()
    print(f"{name}: {len(accepted)} command lines, {sum(accepted)} of them accepted")


@pytest.mark.long
@pytest.mark.parametrize("name", SCRIPTS)
def test_any_settings_are_accepted_or_refused_in_one_line(name, tmp_path):
    fuzz(name, 5, tmp_path)


@pytest.mark.faults
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", SCRIPTS)
def test_many_settings(name, tmp_path):
    fuzz(name, EXAMPLES, tmp_path, derandomize=False)
