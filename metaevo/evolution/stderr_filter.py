"""Pass on what C++ libraries write to stderr, without their messages about lost processes.

This is a separate program because JAX aborts a process that loses the coordinator before Python can
report it. The argument is the line to print instead, unless the process has printed its own.
"""

import re
import signal
import sys

NOISE = re.compile(
    rb"coordination_service|coordination service|CoordinationService|grpc|absl::Status|"
    rb"xla/tsl/distributed_runtime|JAX distributed service|^\*\*\* Check failure"
)
ERROR = b"error: process "
ABORT = b"Terminating process because the JAX distributed service"


def main(replacement: str) -> None:
    """Copy stdin to stderr line by line until its end."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the end of stdin ends this program
    explained = False
    for line in sys.stdin.buffer:
        if ABORT in line:
            line = replacement.encode() + b"\n"
        elif NOISE.search(line):
            continue
        if explained:
            continue
        explained = line.startswith(ERROR)
        sys.stderr.buffer.write(line)
        sys.stderr.buffer.flush()


if __name__ == "__main__":
    main(sys.argv[1])
