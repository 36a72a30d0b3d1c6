"""``python -m duet_trio``: the same as the console script ``duet``."""

from __future__ import annotations

import sys

from duet_trio.cli import main

if __name__ == "__main__":
    sys.exit(main())
