"""The plan of faults: which, where, when. A TOML file, checked strictly.

::

    seed = 7                      # of everything that is drawn: garbage, chances

    [[fault]]
    seam = "tts.block"            # where it happens
    generation = 2                # in that answer only; left out: in any
    nth = 1                       # at the n-th occurrence (of that answer, if one is named)
    effect = "hang"               # what happens

Seams and what they count:

============== =================================================================================
asr.call       a request to the recogniser
llm.piece      a stay of the writer: one piece of text (the first includes the prefill)
llm.token      a token of it; the fault follows the n-th
tts.start      a piece that is to be spoken
tts.block      a block of speech; the fault follows the n-th
socket.send    a message to a board, packet or control
socket.receive a message from a board
============== =================================================================================
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from duet_trio.config import decode_toml
from duet_trio.engines.injected import EFFECTS
from duet_trio.errors import ConfigError

#: Seams that count requests: the fault comes before any output of that request.
CALL_SEAMS = frozenset({"asr.call", "llm.piece", "tts.start"})
#: Seams that count outputs: the fault comes right after the n-th.
OUTPUT_SEAMS = frozenset({"llm.token", "tts.block"})
SOCKET_SEAMS = frozenset({"socket.send", "socket.receive"})
SEAMS = CALL_SEAMS | OUTPUT_SEAMS | SOCKET_SEAMS

#: ``stall``: this and every later send hangs. ``half_open``: the peer has gone without a word:
#: nothing comes any more, and sends end in nothing until ``value`` bytes (64 KiB) fill the
#: socket's buffer, then they hang. ``reset``: the connection breaks. ``garbage``: random bytes
#: go before the message, or come instead of it. ``slow``: from now on ``value`` (0.1) s per send.
SEND_EFFECTS = frozenset({"stall", "half_open", "reset", "garbage", "slow"})
RECEIVE_EFFECTS = frozenset({"half_open", "reset", "garbage"})


class Fault(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """One fault. ``match``: only where this text occurs in the request, piece or message.

    ``times``: how many occurrences in a row, from the ``nth`` on. ``chance``: with which
    probability each of them is really hit. ``value``: the effect's own number (the factor of
    ``slow``, the seconds of ``late``, the bytes of ``half_open``); 0: its default.
    """

    seam: str
    effect: str
    generation: Annotated[int, Meta(ge=1)] | None = None
    board: str = ""
    match: str = ""
    nth: Annotated[int, Meta(ge=1)] = 1
    times: Annotated[int, Meta(ge=1)] = 1
    chance: Annotated[float, Meta(ge=0, le=1)] = 1.0
    value: Annotated[float, Meta(ge=0)] = 0.0


class Deed(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What the user does in `duet faults run` (a served board has its own user).

    It comes ``wait_s`` after the ``nth`` trace event ``after`` of that ``generation`` (none: of
    any) with ``match`` in its values; without ``after``, ``wait_s`` after the deed before it.
    """

    do: Literal["ask", "abort", "wake_word", "disconnect"]
    text: str = "tell me a story"
    after: str = ""
    generation: Annotated[int, Meta(ge=1)] | None = None
    match: str = ""
    nth: Annotated[int, Meta(ge=1)] = 1
    wait_s: Annotated[float, Meta(ge=0)] = 0.0


class Plan(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """All faults of a run; ``seed`` is that of the one `random.Random` behind every draw.

    ``about``: a line on what this case shows.
    """

    seed: int = 0
    about: str = ""
    fault: tuple[Fault, ...] = ()
    deed: tuple[Deed, ...] = ()


def effects_of(seam: str) -> frozenset[str]:
    """The effects that a seam knows."""
    if seam == "socket.send":
        return SEND_EFFECTS
    return RECEIVE_EFFECTS if seam == "socket.receive" else EFFECTS


def load_plan(path: Path) -> Plan:
    """Read a plan. Raises `ConfigError` with one line: what, where, how to mend it."""
    try:
        plan = msgspec.convert(decode_toml(path.read_bytes()), Plan)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; give faults.plan an existing one") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {_plain(str(error))}") from None
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    check(plan, str(path))
    return plan


def check(plan: Plan, where: str) -> None:
    """Raise `ConfigError` for a seam or an effect that does not exist."""
    for number, fault in enumerate(plan.fault, 1):
        if fault.seam not in SEAMS:
            raise ConfigError(
                f"{where}: fault {number}: unknown seam '{fault.seam}'; one of {_list(SEAMS)}"
            )
        known = effects_of(fault.seam)
        if fault.effect not in known:
            raise ConfigError(
                f"{where}: fault {number}: {fault.seam} has no effect '{fault.effect}';"
                f" one of {_list(known)}"
            )


def _list(names: frozenset[str]) -> str:
    return ", ".join(sorted(names))


def _plain(message: str) -> str:
    return message.replace("`", "'").replace("$.fault[...]", "fault").replace("$.", "")
