"""The threads that send a run to its trackers while it continues."""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator, Sequence

from tqdm import tqdm

from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.tracking.destination import Destination
from metaevo.runs.tracking.mirror import send

_ABANDONED_SECONDS = 10.0
_SILENT_SECONDS = 1.0
"""how long the end of a run waits without a message"""


@contextlib.contextmanager
def mirrored(run: RunDirectory, to: Sequence[Destination], *, wait: float) -> Iterator[None]:
    """Send a run directory with a config.yaml to destinations while it is written.

    A service that fails costs one warning; the run continues, and at its end waits at most `wait`
    seconds until the rest is sent.
    """
    over = threading.Event()
    warned: set[Destination] = set()

    def warn(destination: Destination, reason: str) -> None:
        if destination not in warned:
            warned.add(destination)
            short = " ".join(reason.split())[:300]
            tqdm.write(
                f"warning: {destination.label}: {short}; the run continues, send the rest later: "
                f"metaevo sync {run.path}",
                file=sys.stderr,
            )

    def follow(destination: Destination) -> None:
        try:
            send(run, destination, over)
        except BaseException as error:  # no exception of a client may reach the run
            warn(destination, str(error) or type(error).__name__)

    threads = {each: threading.Thread(target=follow, args=[each], daemon=True) for each in to}
    for thread in threads.values():
        thread.start()
    try:
        yield
    finally:
        deadline = time.monotonic() + wait
        over.set()
        for destination, thread in threads.items():
            thread.join(min(_SILENT_SECONDS, wait))
            if thread.is_alive() and wait > _SILENT_SECONDS:
                label = destination.label
                print(f"waiting up to {wait:.0f} s for {label} (run.track_wait)", file=sys.stderr)
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                warn(destination, "has not received everything yet")
                if destination.service == "wandb":
                    _abandon_wandb()
                    # A thread inside wandb's C++ code would abort this process at its end.
                    thread.join(_ABANDONED_SECONDS)


def _abandon_wandb() -> None:
    """End wandb's process, which would otherwise delay the end of this one."""
    with contextlib.suppress(Exception):  # no public function does this
        connection = sys.modules["wandb"].sdk.wandb_setup._singleton._connection
        connection._finalizer.close()
        connection._cleanup()
        connection._proc._process.kill()
