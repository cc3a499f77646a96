"""A wrong command line is one line with the key and what is allowed."""

import json

import pytest

from metaevo.runs.run_directory import RunDirectory
from tests.processes import python

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
    answers.append([code, said.getvalue()])
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
    "train --learner.nope 1": "learner = {'nope': 1} is not known; allowed: ppo, ",
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
    "evolve --learner mine.py:MINE --foo-bar 1": "learner = 'mine.py:MINE': there is no file",
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
    code, said = answers[line]
    assert code == 2
    assert said.startswith("error: ")
    assert said.endswith("\n")
    assert said.count("\n") == 1
    assert CASES[line] in said
