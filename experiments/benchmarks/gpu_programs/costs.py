"""What a compiled program costs, by its parts: kernels, bytes, questions to the host, time."""

from typing import NamedTuple

from experiments.benchmarks.gpu_programs.hlo import Cost, Loop, Part
from experiments.benchmarks.gpu_programs.programs import Work

COLUMNS = (
    "program", "agents", "launches / env step", "launches / gradient step", "launches / update",
    "% in graphs", "syncs / update", "GB / update", "GB needed", "M frames/s",
)  # fmt: skip


class Measured(NamedTuple):
    """Costs of a program, by its parts."""

    update: Cost
    """of one update of all agents, or of one generation"""
    env_step: Cost | None
    """of one step in all environments"""
    gradient_step: Cost | None
    memory: int
    """bytes that the program needs"""
    frames_per_second: float
    """environment steps of all agents, estimated"""


def measure(work: Work, bandwidth: float) -> Measured:
    """Return the costs of a compiled program.

    Args:
        work: the program.
        bandwidth: of the GPU's memory, bytes per second.
    """
    whole = work.compiled.program(bandwidth).whole
    update = whole.total
    if (loop := _longest(whole, work.updates)) is not None and work.updates > 1:
        whole, update = loop.body, loop.body.total
    step = _each(whole, "rollout", work.env_steps)
    gradient = _each(whole, "gradient_steps", work.gradient_steps)
    speed = work.frames / update.seconds
    return Measured(update, step, gradient, work.compiled.bytes_needed, speed)


def _longest(part: Part, trips: int) -> Loop | None:
    """The most expensive loop with so many iterations."""
    loops = [loop for loop in part.loops if loop.trips == trips]
    return max(loops, key=lambda loop: loop.body.total.seconds, default=None)


def _each(update: Part, scope: str, count: int) -> Cost | None:
    """The cost of one of so many steps, which the loops of a named scope take together."""
    loops = list(update.find(scope))
    if not loops or not count:
        return None
    total = sum((loop.body.total * (loop.trips or 1) for loop in loops), Cost())
    return total * (1 / count)


def row(name: str, work: Work, measured: Measured) -> list[str]:
    """Return a row of the table; see `COLUMNS`."""
    update = measured.update
    steps = (
        "" if each is None else f"{each.launches:.3g}"
        for each in (measured.env_step, measured.gradient_step)
    )
    return [
        name,
        f"{work.agents:,}",
        *steps,
        f"{update.launches:,.0f}",
        f"{100 * update.graphed / update.launches:.0f}",
        f"{update.syncs:,.0f}",
        f"{update.bytes / 1e9:.3g}",
        f"{measured.memory / 2**30:.3g}",
        f"{measured.frames_per_second / 1e6:.3g}",
    ]
