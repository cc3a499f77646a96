"""A wrong command line is one line with the key and what is allowed, before JAX is imported."""

import dataclasses
import json

import pytest

from metaevo.commands.early import early_class
from metaevo.config import load_yaml
from metaevo.config.checks import check_given
from metaevo.config.documentation import settings_of
from metaevo.parts import learners
from metaevo.parts.learners import PARTS, part_class
from metaevo.runs.run_directory import RunDirectory
from metaevo.studies.settings import settings_class
from metaevo.studies.sweeps import sweep_class
from metaevo.training.settings import training_class
from tests.processes import ROOT, python

PROGRAM = """
import contextlib, io, json, sys
from metaevo.__main__ import main
answers = []
for line in json.loads(sys.argv[1]):
    with contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            code = main(line.split())
        except SystemExit as end:
            code = end.code
    answers.append([code, said.getvalue(), sorted({"jax", "gymnax"} & {*sys.modules})])
print(json.dumps(answers))
"""
CASES = {
    "evolve --strategy.popsize 4": "--strategy.popsize (did you mean --strategy.population_size?)",
    "evolve --quick --foo": "unknown flag --foo; allowed: component, ",
    "evolve --devics 2": "--devics (did you mean --devices?)",
    "evolve --generations many": "evolution.generations = 'many': must be an integer",
    "evolve --generations 0": "evolution.generations = 0: must be greater than 0",
    "evolve --evolution.validation_seeds -1": "evolution.validation_seeds = -1: must be at least 0",
    "evolve --evolve value_loss --component.temprl 1": "(did you mean --component.temporal?)",
    "evolve --evolve value_los": "evolve = 'value_los' is not known (did you mean value_loss?)",
    "evolve --wandb maybe": "run.wandb = 'maybe': must be 'disabled', 'offline' or 'online'",
    "train --learner.nope 1": "learner = {'nope': 1}: must be text",
    "train --learner pppo": "learner = 'pppo' is not known (did you mean ppo?); allowed: ppo, ",
    "train --learning_rate 3": "--learning_rate (did you mean --hyperparams.learning_rate?)",
    "train --train.num_envs 0": "train.num_envs = 0: must be greater than 0",
    "train --learner dqn --hyperparams.gamma 2": "hyperparams.gamma = 2: must be at most 1",
    "train --seeds": "--seeds needs a value",
    "sweep --sampler tpe": "--sampler (did you mean --sweep.sampler?)",
    "sweep --sweep.trials 0": "sweep.trials = 0: must be greater than 0",
    "trian": "unknown command 'trian' (did you mean train?)",
    "compare --metrics x": "--metrics (did you mean --metric?)",
    "generality --task x": "--task (did you mean --tasks?)",
    "judge": "--tasks: name a file",
    "evolve --learner mine.py:MINE --foo-bar 1": "unknown flag --foo-bar",
    "zoo --foo": "unknown flag --foo",
    "envs --foo": "unknown flag --foo",
    "evaluate": "missing the run",
    "evaluate --run-dir RUN --evaluation.seds 3": "(did you mean --evaluation.seeds?)",
    "distill RUN --formulae 3": "--formulae (did you mean --formulas?)",
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    run = RunDirectory.create(tmp_path_factory.mktemp("run"), "run")
    run.write_config({"evolve": "value_loss", "learner": "q_learning"}, {"run_id": "a"})
    lines = [line.replace("RUN", str(run.path)) for line in CASES]
    done = python("-c", PROGRAM, json.dumps(lines))
    return dict(zip(CASES, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("line", CASES)
def test_a_wrong_command_line_is_refused(line, answers):
    code, said, imported = answers[line]
    assert code == 2
    assert said.startswith("error: ")
    assert said.endswith("\n")
    assert said.count("\n") == 1
    assert CASES[line] in said
    assert imported == []


EXAMPLES = [
    *(("train", {"learner": learner}, training_class) for learner in learners.LEARNERS),
    *(
        ("evolve", {"evolve": part, "learner": learner}, settings_class)
        for part in PARTS
        for learner in learners.LEARNERS
        if part_class(part).slot in {slot.name for slot in learners.find(learner).slots}
    ),
    ("sweep", {}, sweep_class),
    ("sweep", {"evolve": "value_loss", "learner": "dqn"}, sweep_class),
]


@pytest.mark.parametrize(("command", "raw", "make_class"), EXAMPLES)
def test_settings_are_read_from_source_as_their_classes_have_them(command, raw, make_class):
    slots = {slot.name for slot in learners.find(raw.get("learner", "ppo")).slots}
    read, made = (
        {setting.key for setting in settings_of(cls)} - slots
        for cls in (early_class(command, raw), make_class(raw))
    )
    assert read == made
    assert slots <= {each.name for each in dataclasses.fields(early_class(command, raw))}


PRESETS = sorted(ROOT.glob("configs/*/*.yaml"))


@pytest.mark.parametrize("path", PRESETS, ids=str)
def test_presets_pass_the_early_check(path):
    raw = load_yaml(path)
    command = "sweep" if "space" in raw else "evolve" if {"evolve", "problem"} & {*raw} else "train"
    check_given(early_class(command, raw), raw)
