"""Evolve any component of a learner: `metaevo evolve`."""

import sys

from metaevo.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["evolve", *sys.argv[1:]]))
