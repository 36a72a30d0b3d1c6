"""``duet board``: a conversation with a server from the command line, without a board."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import msgspec
import trio

from duet_trio.board.client import BoardClient
from duet_trio.board.firmware import FIRMWARES
from duet_trio.board.link import Identity
from duet_trio.board.ota import ask_ota
from duet_trio.board.result import BoardResult
from duet_trio.board.script import Action, BoardOptions, Question
from duet_trio.board.wav import read_wav, write_wav
from duet_trio.errors import ConnectionLostError, PeerError, UsageError
from duet_trio.wire.framing import VERSIONS
from duet_trio.wire.messages import (
    Abort,
    Alert,
    BoardMessage,
    Detect,
    ListenMode,
    ListenStart,
    ListenStop,
    SentenceStart,
    ServerMessage,
    Stt,
    TtsStart,
    TtsStop,
)

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

DEFAULT_URL = "ws://127.0.0.1:8000/xiaozhi/v1/"
#: Exit codes besides those of the whole program.
HEARD, NOT_HEARD, INTERRUPTED = 0, 1, 130


def register(subparsers: Subparsers) -> None:
    """Add ``board``; it sets ``func(args) -> int``, which raises `UsageError`."""
    parser = subparsers.add_parser(
        "board",
        help="a simulated board: talk to a server without one",
        description="Ask a server questions as a stock board would, and hear its answers.",
        epilog="Exit code: 0 an answer was heard, 1 none was, 2 bad use, 130 interrupted.",
    )
    add_arguments(parser)
    parser.set_defaults(func=lambda args: trio.run(run, args))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``duet board`` to a parser."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--url", default=DEFAULT_URL, help="WebSocket address (%(default)s)")
    where.add_argument("--ota", metavar="URL", help="ask this OTA address where to connect")
    parser.add_argument(
        "--wav", dest="asked", action=_Ask, metavar="FILE", help="a spoken question; repeatable"
    )
    parser.add_argument(
        "--text", dest="asked", action=_Ask, metavar="TEXT", help="a typed question; repeatable"
    )
    parser.add_argument("--mode", choices=get_args(ListenMode), default="auto")
    parser.add_argument("--firmware", choices=FIRMWARES, default="2.4", help="(%(default)s)")
    parser.add_argument("--protocol", type=int, choices=VERSIONS, help="binary framing")
    parser.add_argument("--device-id", default=Identity().device_id, metavar="MAC")
    parser.add_argument("--token", default="", help="sent as Authorization")
    parser.add_argument(
        "--abort-after",
        type=float,
        metavar="S",
        help="press the button so long after the first audio of each answer",
    )
    parser.add_argument(
        "--patience", type=float, default=60.0, metavar="S", help="wait so long for the server"
    )
    parser.add_argument(
        "--record", type=Path, metavar="FILE", help="write what was heard to a WAV file"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")


class _Ask(argparse.Action):
    """Keeps ``--wav`` and ``--text`` in their common order."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        asked = list(getattr(namespace, self.dest) or [])
        asked.append((option_string, values))
        setattr(namespace, self.dest, asked)


async def run(args: argparse.Namespace) -> int:
    """Hold the conversation, print it, return the exit code. Raises `UsageError`."""
    questions = _questions(args)
    if args.record is not None:
        write_wav(args.record, b"", 24_000)  # say now, not after the talk, if that fails
    try:
        options = await _options(args)
    except (ConnectionLostError, PeerError) as error:
        sys.stderr.write(f"duet: {error}\n")
        return NOT_HEARD
    client = BoardClient(options, watcher=None if args.json else _print_message)
    interrupted = await _converse(client, questions)
    result = client.result
    if args.record is not None:
        write_wav(args.record, result.heard_pcm(), result.sample_rate_hz)
    if args.json:
        sys.stdout.write(msgspec.json.encode(result.to_dict()).decode() + "\n")
    else:
        _print_summary(result)
    if interrupted:
        return INTERRUPTED
    return HEARD if result.answered else NOT_HEARD


async def _converse(client: BoardClient, questions: Sequence[Question]) -> bool:
    """Run to the end, or to Ctrl-C; say whether it was the latter.

    Taken as a signal and not as `KeyboardInterrupt`, so that what was heard is kept.
    """
    with trio.open_signal_receiver(signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            interrupted = trio.Event()

            async def watch() -> None:
                async for _signal in signals:
                    interrupted.set()
                    nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            await client.run(questions)
            nursery.cancel_scope.cancel()
    return interrupted.is_set()


def _questions(args: argparse.Namespace) -> list[Question]:
    if not args.asked:
        raise UsageError("nothing to ask; give --text TEXT or --wav FILE")
    if any(not value.strip() for _, value in args.asked):
        raise UsageError("an empty question gets no answer; give --text or --wav a value")
    actions: tuple[Action, ...] = ()
    if args.abort_after is not None:
        if not args.abort_after >= 0:
            raise UsageError("--abort-after: give seconds, 0 or more")
        actions = (Action("button", after_s=args.abort_after),)
    return [
        Question(pcm=read_wav(Path(value)), label=value, actions=actions)
        if option == "--wav"
        else Question(text=value, actions=actions)
        for option, value in args.asked
    ]


async def _options(args: argparse.Namespace) -> BoardOptions:
    if not args.patience > 0:
        raise UsageError("--patience: give seconds, more than 0")
    for option, value in (("--device-id", args.device_id), ("--token", args.token)):
        if not (value.isascii() and value.isprintable()):
            raise UsageError(f"{option}: only printable ASCII can be sent in a header")
    url, token, version = args.url, args.token, args.protocol or 1
    if args.ota:
        identity = Identity(device_id=args.device_id, token=token)
        answer = await ask_ota(args.ota, identity, firmware=args.firmware, chip="esp32s3")
        url, token = answer.websocket_url, token or answer.token
        version = args.protocol or answer.version
    identity = Identity(device_id=args.device_id, token=token, version=version)
    return BoardOptions(
        url=url,
        identity=identity,
        firmware=args.firmware,
        mode=args.mode,
        patience_s=args.patience,
    )


def _print_message(at_s: float, message: BoardMessage | ServerMessage) -> None:
    match message:
        case Detect():
            line = f"> {message.text}"
        case ListenStart():
            line = f"  (listening, {message.mode})"
        case ListenStop():
            line = "  (key released)"
        case Abort():
            line = "> (interrupts)"
        case Stt():
            line = f"  understood: {message.text}"
        case TtsStart():
            line = "  (speaking)"
        case SentenceStart():
            line = f"< {message.text}"
        case TtsStop():
            line = "  (end of the answer)"
        case Alert():
            line = f"! {message.status}: {message.message}"
        case _:
            return
    sys.stdout.write(f"{at_s:8.2f} s  {line}\n")
    sys.stdout.flush()


def _print_summary(result: BoardResult) -> None:
    lines = []
    for number, turn in enumerate(result.turns, 1):
        wait = "no audio" if turn.first_audio_s is None else f"{turn.first_audio_s:.2f} s"
        late = f"{100 * turn.gaps.late_share:.1f} % late"
        lines.append(f"turn {number}: first audio {wait}, {len(turn.arrivals_s)} packets, {late}")
    if result.turns:
        lines.append(f"stalls: {len(result.stalls)}, together {result.stall_s:.2f} s")
    if result.packets_dropped:
        lines.append(f"packets lost because the board's queue was full: {result.packets_dropped}")
    lines += [f"unreadable for a board: {error}" for error in result.bad_messages]
    sys.stdout.writelines(f"{line}\n" for line in lines)
    if result.failure:
        sys.stdout.flush()
        sys.stderr.write(f"duet: {result.failure}\n")
