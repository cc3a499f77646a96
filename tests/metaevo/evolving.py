"""Evolutions of components: their settings and studies, and small runs by the command."""

import signal

from metaevo.commands.evolve import main
from metaevo.config import from_dict
from metaevo.evolution import blocks
from metaevo.studies.learner import LearnerStudy
from metaevo.studies.settings import experiment_class


def settings_of(raw, component=None):
    """The settings that a YAML file with these contents gives."""
    return from_dict(experiment_class(raw, component), raw)


def study_of(raw, run_path=None):
    """The study of such settings."""
    return LearnerStudy(settings_of(raw), run_path)


def evolve(folder, text, *argv):
    """Evolve with settings in YAML by the command; return the run directory."""
    (folder / "tiny.yaml").write_text(text)
    run = folder / "run"
    argv = ["--config", str(folder / "tiny.yaml"), "--run-dir", str(run), *argv]
    assert main(argv, description="") == 0
    return run


def stop_after(monkeypatch, looks):
    """Stop an evolution as SIGTERM would, when so many blocks have begun."""
    seen = []

    def in_lockstep(length, stop):
        seen.append(length)
        if len(seen) <= looks:
            return length
        stop.requested = signal.SIGTERM
        return 0

    monkeypatch.setattr(blocks, "in_lockstep", in_lockstep)
