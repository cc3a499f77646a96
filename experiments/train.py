"""Train any learner in any environment: `metaevo train`."""

import sys

from metaevo.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["train", *sys.argv[1:]]))
