"""``duet demo``: a whole conversation on this machine, with nothing pretended.

The server is the one of ``duet serve``, with real workers behind a real socket; the board is the
simulated one of ``duet board``. Its question is *spoken*: the demo voice says it, the board sends
that as audio, and the server has to recognise it like anybody's.
"""

from __future__ import annotations

import argparse
import logging
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soxr
import trio

from duet_trio.board.client import BoardClient, BoardOptions
from duet_trio.board.result import BoardResult
from duet_trio.board.script import Question
from duet_trio.board.wav import write_wav
from duet_trio.cli import add_config_options
from duet_trio.config import Config, load
from duet_trio.engines.contracts import LISTEN_RATE_HZ, SPEECH_RATE_HZ, SpeechRequest, Tts
from duet_trio.errors import EngineFailedError, UsageError
from duet_trio.server.app import Addresses, Server
from duet_trio.server.running import cancel_when, open_recorder, over, say_where, until_ready
from duet_trio.wire.messages import BoardMessage, SentenceStart, ServerMessage, Stt

DEMO_CONFIG = Path(__file__).parent.parent / "config" / "demo.toml"
DEFAULT_QUESTION = "Can you tell me a short story about a little robot?"
#: Generation of the spoken question: no answer has it.
QUESTION_GENERATION = 0
STALL_BUFFER_MS = 300
QUIET_S = 0.3  # before and after the spoken question


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What the command line says."""

    config: Config
    question: str
    folder: Path
    stay: bool


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``demo``."""
    parser = subparsers.add_parser("demo", help="one spoken question and its answer, all local")
    add_config_options(parser)
    parser.add_argument(
        "--question", default=DEFAULT_QUESTION, help="what the simulated person says (English)"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("demo-out"), help="folder for the WAV and the trace"
    )
    parser.add_argument("--serve", action="store_true", help="stay up afterwards, for a real board")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Run the demo; 0 when an answer was heard."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    trace = args.out / "trace.jsonl"
    try:
        args.out.mkdir(parents=True, exist_ok=True)
        trace.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(
            f"--out: {args.out} cannot be written ({error.strerror}); name a folder of your own"
        ) from None
    own = [f"trace.path={trace.as_posix()!r}", f"server.state_dir={args.out.as_posix()!r}"]
    if not args.serve:
        # Alone on this machine, whatever else may run here.
        own += ["server.host='127.0.0.1'", "server.websocket_port=0", "server.http_port=0"]
    config = load(args.config or DEMO_CONFIG, [*own, *args.assignments])
    return trio.run(_demo, DemoOptions(config, args.question, args.out, args.serve))


async def _demo(options: DemoOptions) -> int:
    with open_recorder(options.config) as (recorder, close):
        server = Server(options.config, recorder, last_words=close)
        async with trio.open_nursery() as nursery:
            started_at = trio.current_time()
            addresses: Addresses = await nursery.start(server.run)
            print("loading engines …", flush=True)
            nursery.start_soon(_converse, options, server, addresses, started_at)
        return over(server)


async def _converse(
    options: DemoOptions, server: Server, addresses: Addresses, started_at: float
) -> None:
    if not await until_ready(server):
        return
    print(f"ready after {trio.current_time() - started_at:.1f} s")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancel_when, server.stop.ordered, nursery.cancel_scope)
        result = await ask_aloud(options.question, server.engines.tts, addresses)
        nursery.cancel_scope.cancel()
    if server.stop.ordered.is_set():
        return
    report(result, options.folder)
    if options.stay:
        say_where(addresses)
        print("the server stays up; Ctrl-C ends it", flush=True)
    else:
        server.stop.order(0 if result.answered else 1)


async def ask_aloud(question: str, voice: Tts, addresses: Addresses) -> BoardResult:
    """Let a simulated board say ``question`` to the server at ``addresses``.

    Raises `UsageError` if the voice cannot say it.
    """
    print(f'\nasked aloud:  "{question}"', flush=True)
    try:
        pcm = await speech(voice, question)
    except EngineFailedError as error:
        raise UsageError(f"--question: {error.reason}; ask in plain English words") from None
    client = BoardClient(
        BoardOptions(url=f"ws://127.0.0.1:{addresses.websocket_port}/xiaozhi/v1/"),
        watcher=show,
    )
    return await client.run([Question(pcm=pcm, label="spoken question")])


async def speech(voice: Tts, text: str) -> bytes:
    """``text`` in the given voice as a microphone would record it: 16 kHz, silence around it."""
    blocks: list[bytes] = []
    request = SpeechRequest(text, generation=QUESTION_GENERATION, piece=0, cap_s=30.0)
    await voice.speak(request, blocks.append)
    samples = np.frombuffer(b"".join(blocks), dtype="<i2")
    resampled = soxr.resample(samples, SPEECH_RATE_HZ, LISTEN_RATE_HZ)
    quiet = bytes(2 * int(LISTEN_RATE_HZ * QUIET_S))
    return quiet + np.asarray(resampled, dtype="<i2").tobytes() + quiet


def show(at_s: float, message: BoardMessage | ServerMessage) -> None:
    """Print what a person at the board would see."""
    if isinstance(message, Stt):
        print(f'recognised:   "{message.text}"', flush=True)
    elif isinstance(message, SentenceStart):
        print(f"{at_s:7.2f} s     {message.text}", flush=True)


def report(result: BoardResult, folder: Path) -> None:
    """Print the figures of the conversation and write what was heard."""
    write_wav(folder / "heard.wav", result.heard_pcm(), result.sample_rate_hz)
    turn = result.turns[0] if result.turns else None
    if turn is None or turn.first_audio_s is None:
        print(f"\nno answer was heard{': ' + result.failure if result.failure else ''}")
        return
    # The recording ends with 0.3 s of quiet (see `speech`), which the listener waits out as well.
    wait_s = turn.first_audio_s + QUIET_S
    print(f"\nend of question → first audio: {wait_s:.2f} s (endpoint included)")
    print(f"stalls while it spoke:          {len(result.stalls)} ({result.stall_s:.2f} s)")
    print(f"heard:  {folder / 'heard.wav'}")
    print(f"trace:  {folder / 'trace.jsonl'}  (see: duet trace summary)", flush=True)
