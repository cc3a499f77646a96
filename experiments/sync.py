"""Send what trackers have missed of runs: `metaevo sync`."""

import sys

from metaevo.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["sync", *sys.argv[1:]]))
