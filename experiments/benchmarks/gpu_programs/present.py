"""Worker: a program on the GPU that is there, counted as without one and measured."""

from experiments.benchmarks.work import Made, timed


def program(name: str, agents: int) -> Made:
    """Compile one of `PROGRAMS` for so many agents; the description has its estimated costs."""
    from metaevo.evolution import devices

    devices.setup()
    from experiments.benchmarks.gpu_programs import deviceless
    from experiments.benchmarks.gpu_programs.costs import COLUMNS, measure, row
    from experiments.benchmarks.gpu_programs.programs import PROGRAMS

    target = deviceless.present()
    work = PROGRAMS[name][0](target, agents)
    costs = measure(work, target.bandwidth)
    amount = work.updates * work.frames
    run = timed(lambda arguments: work.compiled.call(*arguments), work.inputs, amount)
    return run, {"row": dict(zip(COLUMNS, row(name, work, costs), strict=True))}
