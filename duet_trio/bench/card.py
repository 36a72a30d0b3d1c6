"""A card in numbers: how fast a language model and a voice are, alone and beside each other.

The file (see ``config/gpu-rtx4060-laptop.toml``) has measured anchors; what the model computes
with follows from them here, so that nothing can be tuned unseen:

* A request of ``a`` seconds of audio takes ``rtf * a + request_s`` alone. The fixed part explains
  why one sentence is slower than the long texts on which ``rtf`` was measured.
* The burst comes at the speed of ``rtf``; what is left of the time is spread evenly over the rest.
* While both compute, the voice keeps ``turns / at_once`` (of the first sentence's factors) of its
  speed and the language model has the remaining share of the card.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from duet_trio.config import decode_toml
from duet_trio.errors import ConfigError

Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Range = tuple[Positive, Positive]
#: What the same laptop did; least and most. Only ever compared with.
Reference = tuple[NotNegative, NotNegative]


class CardSection(Struct, frozen=True, forbid_unknown_fields=True):
    """Which card it is."""

    name: str


class LlmNumbers(Struct, frozen=True, forbid_unknown_fields=True):
    """The language model, alone; and on the CPU."""

    tokens_per_s: Range
    prompt_s: NotNegative
    off_card_prompt_s: NotNegative
    off_card_tokens_per_s: Positive


class VoiceNumbers(Struct, frozen=True, forbid_unknown_fields=True):
    """The voice."""

    rtf: Positive
    first_sentence_rtf_turns: Positive
    first_sentence_rtf_at_once: Positive
    first_sentence_s: Positive
    burst_s: Range
    block_s: Positive
    seconds_per_character: Positive


class CardModel(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    card: CardSection
    llm: LlmNumbers
    voice: VoiceNumbers
    reference: dict[str, Reference] = {}

    @property
    def request_s(self) -> float:
        """Fixed time of a request to the voice."""
        voice = self.voice
        return max(0.0, voice.first_sentence_rtf_turns - voice.rtf) * voice.first_sentence_s

    @property
    def voice_share(self) -> float:
        """Of its speed, while the language model decodes."""
        voice = self.voice
        return min(1.0, voice.first_sentence_rtf_turns / voice.first_sentence_rtf_at_once)

    @property
    def llm_share(self) -> float:
        """Of its speed, while the voice computes."""
        return max(0.05, 1.0 - self.voice_share)


class Variant(Struct, frozen=True):
    """What one set-up changes. ``rtf``: every piece takes that factor times its audio."""

    off_card: bool = False
    throttle_tokens_per_s: float = 0.0  # 0: not throttled
    rtf: float = 0.0  # 0: by the file


class Draw(Struct, frozen=True):
    """One answer's speeds: the same in both schedules, so that only the schedule differs."""

    tokens_per_s: float
    burst_s: float


def draw(model: CardModel, seed: int, number: int) -> Draw:
    """The speeds of answer ``number``."""
    rng = random.Random(f"{seed}:{number}")
    return Draw(rng.uniform(*model.llm.tokens_per_s), rng.uniform(*model.voice.burst_s))


def speech_steps(
    model: CardModel, variant: Variant, audio_s: float, burst_s: float
) -> list[tuple[float, float]]:
    """One request as steps of (seconds of work alone, seconds of audio then put out).

    The burst is one block, but several steps: what the other engine does meanwhile counts.
    """
    voice = model.voice
    total_s = variant.rtf * audio_s if variant.rtf else voice.rtf * audio_s + model.request_s
    burst_s = min(burst_s, max(audio_s - voice.block_s, audio_s / 2))
    burst_work_s = min(voice.rtf * burst_s, total_s)
    parts = max(1, round(burst_s / voice.block_s))
    steps = [(burst_work_s / parts, 0.0)] * (parts - 1) + [(burst_work_s / parts, burst_s)]
    rest_s = audio_s - burst_s
    factor = (total_s - burst_work_s) / rest_s
    while rest_s > 1e-9:
        block_s = min(voice.block_s, rest_s)
        steps.append((block_s * factor, block_s))
        rest_s -= block_s
    return steps


def load_card(path: Path) -> CardModel:
    """Read a model. Raises `ConfigError` with one line that says what is wrong."""
    try:
        return msgspec.convert(decode_toml(path.read_bytes()), CardModel)
    except OSError as error:
        raise ConfigError(f"--model {path}: cannot be read ({error.strerror})") from None
    except msgspec.DecodeError as error:
        raise ConfigError(f"--model {path}: not a modelled card: {error}") from None
