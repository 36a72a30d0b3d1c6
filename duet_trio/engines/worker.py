"""An engine's worker process: ``python -m duet_trio.engines.worker KIND``.

Only the process's own plumbing is here, done before anything else is imported:

* SIGINT is ignored: Ctrl-C reaches the whole process group, and who ends us is our parent.
* The pipes move from fd 0 and 1 to private numbers that no child inherits; fd 0 becomes
  /dev/null and fd 1 stderr. Native libraries print to stdout (ggml, CUDA, Python's own
  ``print``), and one such line in the middle of a message would end the protocol.
* Niceness 5: the event loop that sends audio every 60 ms goes first.

Neither trio nor quart is imported in this process.
"""

from __future__ import annotations

import os
import signal
import sys


def claim_pipes() -> tuple[int, int]:
    """Move the pipes away from fd 0 and 1; returns their new numbers (commands, messages)."""
    commands, messages = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return commands, messages


def main() -> None:
    """Run one engine until the command pipe ends. Never returns normally."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    commands, messages = claim_pipes()
    if sys.platform != "win32":
        os.nice(5)
        _no_core_file()
    # Late, so that whatever these import already finds the pipes gone from fd 0 and 1.
    from duet_trio.engines.worker_loop import run_worker

    run_worker(sys.argv[1], commands, messages)


def _no_core_file() -> None:
    """An aborted worker with a model in it would write gigabytes."""
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main()
