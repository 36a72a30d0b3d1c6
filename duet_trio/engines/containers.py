"""The program of the process that makes and reads audio containers, one stream each.

::

    python -m duet_trio.engines.containers encode mp3    s16le 24 kHz mono in, a container out
    python -m duet_trio.engines.containers decode 60     any audio file in, s16le 16 kHz mono out

FFmpeg reads files of strangers here: a process of its own per stream, with limits on its memory
and time, is what such code deserves, and ending it is a kill.
"""

from __future__ import annotations

import os
import signal
import sys

from duet_trio.engines.adapters.container import decode, encode

#: FFmpeg needs some 300 MB of address space; a file that wants more is an attack.
MEMORY_BYTES = 2 << 30
CPU_S = 120


def main() -> int:
    """Do what the arguments say."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the group; our parent ends us
    _limit()
    # Native libraries print: fd 1 is ours alone.
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    what, value = sys.argv[1:3]
    if what == "encode":
        return encode(sys.stdin.buffer, out, value)
    return decode(sys.stdin.buffer, out, float(value))


def _limit() -> None:
    if sys.platform == "win32":
        return
    import resource

    os.nice(5)  # the event loop that sends audio goes first
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    if sys.platform == "linux":  # elsewhere address space is no measure of use
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


if __name__ == "__main__":
    sys.exit(main())
