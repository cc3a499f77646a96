"""Wandb online, against a server of ours: what was not confirmed is neither lost nor sent twice."""

import pytest

from metaevo.runs.tracking.state import load_state
from tests.metaevo.runs.tracking.fake_wandb import serving
from tests.metaevo.runs.tracking.runs import RUN_ID, finish_run, log_generations, make_run, sync

KEY = "0" * 40


@pytest.mark.long
def test_a_sync_that_failed_half_way_is_completed(tmp_path):
    run = make_run(tmp_path / "run")
    with serving() as fake:
        settings = {"WANDB_BASE_URL": fake.url, "WANDB_API_KEY": KEY}
        fake.takes_artifacts = False
        finish_run(run)
        said = sync(run.path, "--wandb", code=1, **settings)
        assert "error: " in said
        rows = fake.history(RUN_ID)
        assert len(rows) == 5  # they are there, but the mirror was never told
        assert load_state(run.path, "wandb:online#p").rows == 0
        fake.takes_artifacts = True
        log_generations(run, [3])
        assert "sent 6 records" in sync(run.path, "--wandb", **settings)
        assert fake.history(RUN_ID)[:5] == rows
        assert [row.get("generation/index") for row in fake.history(RUN_ID)] == [
            0, 1, 2, None, None, 3
        ]  # fmt: skip
        assert len(fake.history(f"{RUN_ID}-trial_0")) == 2
        assert set(fake.rows) == {RUN_ID, f"{RUN_ID}-trial_0", f"{RUN_ID}-trial_1"}
        assert load_state(run.path, "wandb:online#p").rows == 6
        head = fake.heads[f"{RUN_ID}-trial_0"]
        assert (head["groupName"], head["jobType"], head["displayName"]) == (
            "run", "trial", "run/trial_0"
        )  # fmt: skip
        opened = list(fake.opened)
        assert "nothing new" in sync(run.path, "--wandb", **settings)
        assert fake.opened == opened
