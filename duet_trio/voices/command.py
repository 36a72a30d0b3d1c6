"""``duet voice add | list | remove | try``.

A running server takes a new name at once; a voice that was replaced or removed under a name that
it has used already it keeps until it is started again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from duet_trio.cli import add_config_options, read_config
from duet_trio.engines.native.maker_task import Task
from duet_trio.engines.native.settings import tts_settings, voices_folder
from duet_trio.engines.native.voice_store import VoiceStore, check_name
from duet_trio.errors import ConfigError, MissingFileError, UsageError
from duet_trio.speech.caps import audio_cap_s
from duet_trio.voices.making import VoiceFailedError, run_task
from duet_trio.voices.reference import check_reference

if TYPE_CHECKING:
    from duet_trio.config import Config

_TRY_TEXT = "Hello! This is how I sound. Shall we talk about something?"


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``duet voice`` and what it can do."""
    parser = subparsers.add_parser("voice", help="list, add and check cloned voices")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    add = actions.add_parser(
        "add",
        help="make a voice of a recording of 3 to 15 s",
        description="Make a voice of a recording of 3 to 15 s. A new name is known to a running"
        " server at once; one that it has used keeps its voice until it is started again.",
    )
    add.add_argument("name", help="what to call it in tts.voice")
    add.add_argument("recording", type=Path, help="a WAV file of one person, speaking clearly")
    add.add_argument(
        "--text",
        default="",
        metavar="TRANSCRIPT",
        help="what is said in it, word by word: closer likeness, slower, at most 8 s",
    )
    add.set_defaults(func=_reported(_add))

    listing = actions.add_parser("list", help="all voices, and the models they are made for")
    listing.set_defaults(func=_reported(_list))

    remove = actions.add_parser("remove", help="forget a voice")
    remove.add_argument("name")
    remove.set_defaults(func=_reported(_remove))

    trial = actions.add_parser("try", help="speak a text with a voice into a WAV file")
    trial.add_argument("name", nargs="?", default="", help="none: the model's own voice")
    trial.add_argument("--text", default=_TRY_TEXT)
    trial.add_argument("--out", type=Path, default=Path("voice.wav"), metavar="FILE")
    trial.add_argument("--seed", type=int, default=1)
    trial.set_defaults(func=_reported(_try))

    for action in (add, listing, remove, trial):
        add_config_options(action)


def _reported(action: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """One line for what the engine or the disk did, instead of a traceback."""

    def run(args: argparse.Namespace) -> int:
        try:
            return action(args)
        except VoiceFailedError as error:
            sys.stderr.write(f"duet: {error}\n")
            return 1
        except BrokenPipeError:  # of our output: the command line's own affair
            raise
        except OSError as error:
            where = error.filename or "the folder of voices"
            raise UsageError(
                f"{where}: cannot be used ({error.strerror}); mend that, or choose another folder"
                " with tts.voices"
            ) from None

    return run


def _add(args: argparse.Namespace) -> int:
    config = read_config(args)
    _need_qwen(config)
    transcript = _unicode(args.text).strip()
    store = VoiceStore(voices_folder(config))
    replaced = args.name in store.names()
    check_name(args.name)
    reference = check_reference(args.recording, icl=bool(transcript))
    for remark in reference.remarks:
        _say(f"{args.recording}: {remark}")
    # Under its name only when an engine has made it: one that cannot speak would fail much later,
    # and one of that name which can is not lost.
    draft = store.draft(
        args.name, reference.pcm, transcript=transcript, source=_unicode(args.recording.name)
    )
    with ExitStack() as undo:  # also when a person interrupts it
        undo.callback(store.discard, draft)
        task = Task(do="make", settings=tts_settings(config), draft=str(draft.folder))
        outcome = run_task(task, config.tts.load_s)
        record = store.publish(draft)
        undo.pop_all()
    how = "had been made before" if outcome.reused else f"made in {outcome.work_s:.1f} s"
    _say(
        f"{args.name}: {record.kind} voice of {record.seconds:.1f} s, {how}"
        f'{" (replaced)" if replaced else ""}; use it with tts.voice = "{args.name}"'
    )
    return 0


def _list(args: argparse.Namespace) -> int:
    store = VoiceStore(voices_folder(read_config(args)))
    damaged = False
    for name in store.names():
        try:
            record = store.read(name)
        except MissingFileError as error:
            _say(f"{name:<16} {error}")
            damaged = True
            continue
        made = ", ".join(store.made_for(record)) or "none yet"
        _say(
            f"{name:<16} {record.kind:<9} {record.seconds:5.1f} s  from {record.source}"
            f"  models: {made}"
        )
    if not store.names():
        _say(f"no voices in {store.folder}; make one with: duet voice add NAME ref.wav")
    return 1 if damaged else 0


def _remove(args: argparse.Namespace) -> int:
    VoiceStore(voices_folder(read_config(args))).remove(args.name)
    _say(f"{args.name}: removed")
    return 0


def _try(args: argparse.Namespace) -> int:
    config = read_config(args)
    _need_qwen(config)
    if not any(character.isalnum() for character in args.text):
        raise UsageError(f"--text {args.text!r}: nothing in it to speak; give it some words")
    task = Task(
        do="say",
        settings=tts_settings(config),
        voice=args.name or config.tts.voice,
        text=_unicode(args.text),
        out=str(args.out),
        cap_s=audio_cap_s(args.text),
        seed=args.seed,
    )
    outcome = run_task(task, config.tts.load_s)
    factor = outcome.work_s / outcome.audio_s if outcome.audio_s else 0.0
    _say(
        f"{args.out}: {outcome.audio_s:.1f} s of speech in {outcome.work_s:.1f} s"
        f" (real-time factor {factor:.2f}; loading took {outcome.load_s:.1f} s)"
    )
    return 0


def _need_qwen(config: Config) -> None:
    if config.tts.engine != "qwen":
        raise ConfigError(
            f"tts.engine = {config.tts.engine}: only qwen clones voices; set tts.engine, "
            "tts.library, tts.model and tts.codec"
        )


def _unicode(argument: str) -> str:
    """Without the stand-ins for bytes that are no UTF-8: neither JSON nor an engine takes them."""
    return argument.encode("utf-8", "replace").decode()


def _say(line: str) -> None:
    sys.stdout.write(f"{_unicode(line)}\n")
