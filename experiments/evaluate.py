"""Judge a discovered component on a task that its evolution has not seen: `metaevo evaluate`."""

import sys

from metaevo.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["evaluate", *sys.argv[1:]]))
