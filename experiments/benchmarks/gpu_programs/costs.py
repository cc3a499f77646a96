"""What a compiled program costs, by its parts: kernels, bytes, questions to the host, time."""

from experiments.benchmarks.gpu_programs.hlo import Part
from experiments.benchmarks.gpu_programs.programs import Work

COLUMNS = (
    "program", "agents", "launches / env step", "launches / gradient step", "launches / update",
    "% in graphs", "syncs / update", "GB / update", "GB needed", "M frames/s",
)  # fmt: skip


def row(name: str, work: Work, bandwidth: float) -> list[str]:
    """Return a row of the table; see `COLUMNS`.

    Args:
        name: of the program.
        work: the compiled program.
        bandwidth: of the GPU's memory, bytes per second.
    """
    whole = work.compiled.program(bandwidth).whole
    loops = [loop for loop in whole.loops if loop.trips == work.updates > 1]
    if loops:  # the longest one is the training
        whole = max((loop.body for loop in loops), key=lambda body: body.total.seconds)
    update = whole.total
    return [
        name,
        f"{work.agents:,}",
        _launches(whole, "rollout", work.env_steps),
        _launches(whole, "gradient_steps", work.gradient_steps),
        f"{update.launches:,.0f}",
        f"{100 * update.graphed / update.launches:.0f}",
        f"{update.syncs:,.0f}",
        f"{update.bytes / 1e9:.3g}",
        f"{work.compiled.bytes_needed / 2**30:.3g}",
        f"{work.frames / update.seconds / 1e6:.3g}",
    ]


def _launches(update: Part, scope: str, count: int) -> str:
    """Launches of one of so many steps, which the loops of a named scope take together."""
    loops = list(update.find(scope))
    if not loops or not count:
        return ""
    return f"{sum(loop.body.total.launches * (loop.trips or 1) for loop in loops) / count:.3g}"
