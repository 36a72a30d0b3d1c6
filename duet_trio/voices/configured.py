"""The voices that a configuration names: are they there, and made for its model?"""

from __future__ import annotations

from contextlib import suppress

from duet_trio.config import Config
from duet_trio.engines.native.settings import tts_settings, voices_folder
from duet_trio.errors import MissingFileError, UsageError


def configured_voices(config: Config) -> list[str]:
    """All names, sorted: of the engine, of conversations, of single boards."""
    boards = {board.voice for board in config.boards.values()}
    return sorted({config.tts.voice, config.voice.name, *boards} - {""})


def describe_voice(config: Config, name: str) -> str:
    """What that voice is, for people; loads no engine.

    Raises `UsageError` if the engine would not find it, or would refuse to make it: only the one
    in ``tts.voice`` is made at start, because that takes seconds.
    """
    # Our own compiled part is checked by this import.
    from duet_trio.engines.native.loading import Model, describe_folder, describe_pair
    from duet_trio.engines.native.voice_store import VoiceStore
    from duet_trio.models.paths import locate

    settings = tts_settings(config)
    model: Model | None = None
    with suppress(UsageError):  # told where the model is looked at
        talker = locate("tts", settings["model"])
        if settings["codec"]:
            model = describe_pair(talker, locate("tts", settings["codec"]))
        else:
            model = describe_folder(talker)
    if model is not None and name in model.speakers:
        return f"'{name}' is a speaker of the model"
    store = VoiceStore(voices_folder(config))
    record = store.read(name)
    kind = f"'{name}': {record.kind} of {record.seconds:.1f} s"
    if model is None or store.load(record, model.identity) is not None:
        return kind
    if name != config.tts.voice:
        raise MissingFileError(
            f"'{name}' has not been made for this model; run: duet voice add {name} ref.wav"
        )
    return f"{kind}, will be made for this model at start"
