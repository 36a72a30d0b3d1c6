"""``duet say``: have a running server speak, on a board or into a file."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from duet_trio.errors import UsageError

TIMEOUT_S = 60.0  # between two bytes; an announcement waits for the answer before it
CHUNK = 1 << 14
TOKEN_VARIABLE = "DUET_TOKEN"


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``say``."""
    parser = subparsers.add_parser("say", help="speak a text on a board, or into a WAV file")
    parser.add_argument("text", help="what is to be said; - reads it from standard input")
    parser.add_argument("--prompt", action="store_true", help="let the model answer the text")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--device", metavar="MAC", help="a connected board")
    where.add_argument("--output", "-o", metavar="FILE", help="a file; - is standard output")
    parser.add_argument("--interrupt", action="store_true", help="end what the board says now")
    parser.add_argument("--format", help="wav, pcm, ogg, mp3, aac, flac; none: as the file's name")
    parser.add_argument("--voice", default="", help="name of a voice")
    parser.add_argument("--url", default="http://127.0.0.1:8003", help="default: %(default)s")
    parser.add_argument(
        "--token-file", type=Path, metavar="FILE", help=f"token; none: ${TOKEN_VARIABLE}"
    )
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Ask the server; the exit code is 1 if it could not be said to its end."""
    text = sys.stdin.read() if args.text == "-" else args.text
    body: dict[str, object] = {"prompt" if args.prompt else "text": text}
    if args.voice:
        body["voice"] = args.voice
    if args.device:
        body |= {"device": args.device, "interrupt": args.interrupt}
    else:
        body["format"] = args.format or _format_of(args.output)
    with _asked(args, body) as response:
        if args.device:
            return _tell(_told(args.url, response))
        return _keep(response, args.output)


def _told(url: str, response: http.client.HTTPResponse) -> dict[str, str]:
    try:
        return dict(json.loads(response.read()))
    except (OSError, http.client.HTTPException, ValueError, TypeError) as error:
        raise UsageError(
            f"{url}: the answer broke off or is none of `duet serve` ({type(error).__name__})"
        ) from None


def _tell(told: dict[str, str]) -> int:
    if told["outcome"] == "done":
        print(f"said on {told['device']}")
        return 0
    print(f"{told['outcome']}: {told['why']}; heard: {told['heard'] or 'nothing'}", file=sys.stderr)
    return 1


def _keep(response: http.client.HTTPResponse, output: str) -> int:
    out = sys.stdout.buffer if output == "-" else _opened(output)
    count = 0
    whole = True
    try:
        for chunk in _chunks(response):
            out.write(chunk)
            count += len(chunk)
    except BrokenPipeError:
        raise  # ours, not the server's: who reads our output has left
    except (http.client.IncompleteRead, ConnectionError, TimeoutError) as error:
        whole = False
        print(f"duet say: the answer broke off ({type(error).__name__})", file=sys.stderr)
    if output == "-":
        out.flush()
        return 0 if whole else 1
    with out:
        if response.headers.get_content_type() == "audio/wav" and count >= 44:
            # Now the length is known; not every program reads a WAV file without one.
            out.seek(4)
            out.write((count - 8).to_bytes(4, "little"))
            out.seek(40)
            out.write((count - 44).to_bytes(4, "little"))
    if whole:
        print(f"{output}: {count} bytes")
    return 0 if whole else 1


def _opened(output: str) -> BinaryIO:
    try:
        return Path(output).open("wb")
    except OSError as error:
        raise UsageError(f"{output}: cannot be written ({error.strerror})") from None


def _chunks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    while chunk := response.read1(CHUNK):
        yield chunk


def _format_of(output: str) -> str:
    return {"opus": "ogg"}.get(suffix := Path(output).suffix[1:].lower(), suffix) or "wav"


@contextmanager
def _asked(args: argparse.Namespace, body: dict[str, object]) -> Iterator[http.client.HTTPResponse]:
    parts = urlsplit(args.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"--url: '{args.url}' must look like http://127.0.0.1:8003")
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    try:
        connection = kind(parts.hostname, parts.port, timeout=TIMEOUT_S)
    except ValueError:
        raise UsageError(f"--url: '{args.url}' has no usable port") from None
    headers = {"Content-Type": "application/json"}
    token = _token(args.token_file)
    if token:
        headers["Authorization"] = f"Bearer {token}"
    with closing(connection):
        try:
            connection.request("POST", "/speak", json.dumps(body), headers)
            response = connection.getresponse()
            why = "" if response.status == 200 else _why(response)
        except (OSError, http.client.HTTPException) as error:
            raise UsageError(
                f"{args.url}: no answer ({error}); is `duet serve` running there?"
            ) from None
        if why:
            raise UsageError(f"{args.url}: {why}")
        # Outside of the `try`: an error of our own output is none of the server's.
        yield response


def _token(path: Path | None) -> str:
    if path is None:
        return os.environ.get(TOKEN_VARIABLE, "").strip()
    try:
        return path.read_text().strip()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None


def _why(response: http.client.HTTPResponse) -> str:
    try:
        return str(json.loads(response.read())["error"]["message"])
    except (ValueError, LookupError, TypeError):
        return f"answered {response.status}"
