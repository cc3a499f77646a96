"""Sweep over the settings of a learner, or of an evolution: `metaevo sweep`."""

import sys

from metaevo.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["sweep", *sys.argv[1:]]))
