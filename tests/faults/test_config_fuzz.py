import os

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from metaevo.config import dump_yaml
from tests.faults.fuzzing import SCRIPTS, attempts

FEW = 5
EXAMPLES = int(os.environ.get("METAEVO_FUZZ_EXAMPLES", "5000"))
"""Of the long fuzzing, per script."""


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize(
    "examples",
    [
        pytest.param(FEW, marks=pytest.mark.long),
        pytest.param(EXAMPLES, marks=[pytest.mark.faults, pytest.mark.timeout(3600)]),
    ],
)
def test_any_settings_are_accepted_or_refused_in_one_line(name, examples, tmp_path):
    script, accepted = SCRIPTS[name], []

    @settings(
        max_examples=examples,
        derandomize=examples == FEW,
        database=None,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(attempts(script))
    def run(attempt):
        config, overrides = attempt
        path = tmp_path / "config.yaml"
        path.write_text(dump_yaml(config), encoding="utf-8")
        argv = ["--config", str(path), "--run-dir", str(tmp_path / "run"), *overrides]
        accepted.append(script.attempt(argv) is None)

    run()
    assert any(accepted), "if nothing is accepted, this shows nothing"
    assert not (tmp_path / "run").exists()
    print(f"{name}: {len(accepted)} command lines, {sum(accepted)} of them accepted")
