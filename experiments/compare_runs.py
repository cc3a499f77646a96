"""Compare runs: `metaevo compare`."""

import sys

from metaevo.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["compare", *sys.argv[1:]]))
