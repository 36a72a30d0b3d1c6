"""Language model and voice on a modelled card: scripted engines that slow each other down.

Both run in process, on any clock. How long a step takes is decided when it begins, by whether
the other engine computes at that moment; steps are short (a token, two codec frames), so the
error at each change is less than one of them.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from duet_trio.bench.card import CardModel, Draw, Variant, draw, speech_steps
from duet_trio.engines.cap import AudioCap
from duet_trio.engines.carrier import Carrier
from duet_trio.engines.contracts import SPEECH_RATE_HZ, EngineKind, Spoken
from duet_trio.engines.in_process import InProcessCarrier
from duet_trio.engines.pipe import (
    Block,
    DoneSpeak,
    FromWorker,
    SpeakJob,
    TranscribeJob,
    WriteJob,
)
from duet_trio.engines.scripted import ScriptedEngine
from duet_trio.engines.scripted_output import Output, Story, Writing, tone
from duet_trio.speech.measure import speech_units

#: A prompt is computed in steps of this length.
PROMPT_STEP_S = 0.02


class ModelledCard:
    """What both engines share: the numbers, and who computes now."""

    def __init__(self, model: CardModel, variant: Variant, *, seed: int) -> None:
        self.model = model
        self.variant = variant
        self._seed = seed
        self._engines: dict[EngineKind, CardEngine] = {}

    def carrier(self, kind: EngineKind, settings: dict[str, Any]) -> Carrier:
        """A `CarrierFactory` for an `EngineSet`."""
        return CardCarrier(kind, settings, self)

    def put(self, kind: EngineKind, engine: CardEngine) -> None:
        """Let an engine stand for its kind from now on."""
        self._engines[kind] = engine

    def draw(self, number: int) -> Draw:
        """The speeds of answer ``number``."""
        return draw(self.model, self._seed, number)

    def voice_time_s(self, work_s: float) -> float:
        """How long the voice needs for what takes ``work_s`` alone."""
        beside = self._computes("llm") and not self.variant.off_card
        return work_s / self.model.voice_share if beside else work_s

    def llm_time_s(self, work_s: float) -> float:
        """How long the language model needs for what takes ``work_s`` alone."""
        beside = self._computes("tts") and not self.variant.off_card
        return work_s / self.model.llm_share if beside else work_s

    def _computes(self, kind: EngineKind) -> bool:
        engine = self._engines.get(kind)
        return engine is not None and engine.computes


class CardCarrier(InProcessCarrier):
    """Starts engines of a modelled card."""

    def __init__(self, kind: EngineKind, settings: dict[str, Any], card: ModelledCard) -> None:
        super().__init__(kind, settings)
        self._card = card

    def make_engine(self) -> ScriptedEngine:
        """A fresh engine on the card."""
        engine = CardEngine(self._kind, self._settings, self._card)
        self._card.put(self._kind, engine)
        return engine


class CardEngine(ScriptedEngine):
    """A scripted engine whose speed depends on what else the card does."""

    def __init__(self, kind: EngineKind, settings: dict[str, Any], card: ModelledCard) -> None:
        super().__init__(kind, settings)
        self._card = card
        self._work: dict[int, CardWriting | CardSpeaking] = {}

    @property
    def computes(self) -> bool:
        """Is the card in use by this engine now?"""
        self._work = {number: one for number, one in self._work.items() if number in self._jobs}
        return any(one.computes for one in self._work.values())

    def _output(self, job: TranscribeJob | WriteJob | SpeakJob) -> Output:
        match job:
            case WriteJob():
                writing = CardWriting(job, self._story(job), self._card)
                self._work[job.id] = writing
                return writing
            case SpeakJob():
                speaking = CardSpeaking(job, self._card)
                self._work[job.id] = speaking
                return speaking
            case _:
                return super()._output(job)


class CardWriting(Writing):
    """Tokens at the card's speed; a throttle puts a pause behind each."""

    def __init__(self, job: WriteJob, story: Story | None, card: ModelledCard) -> None:
        llm, variant = card.model.llm, card.variant
        tokens_per_s = card.draw(job.stream).tokens_per_s
        if variant.off_card:
            tokens_per_s = llm.off_card_tokens_per_s
        super().__init__(job, story, 1 / tokens_per_s)
        self._card = card
        self._prompt_s = 0.0
        if job.messages is not None:
            self._prompt_s = llm.off_card_prompt_s if variant.off_card else llm.prompt_s
        throttle = variant.throttle_tokens_per_s
        self._least_token_s = 1 / throttle if throttle else 0.0
        self._pause_s = 0.0
        self._silent = False  # this step gives no token
        self.computes = True

    def takes_s(self, slow_factor: float) -> float:
        """A part of the prompt's time, a token's, or the rest of the throttle's."""
        natural_s = super().takes_s(slow_factor)
        self.computes = not self._pause_s
        self._silent = bool(natural_s and (self._pause_s or self._prompt_s))
        if not natural_s:
            return 0.0
        if self._pause_s:
            pause_s, self._pause_s = self._pause_s, 0.0
            return pause_s
        if self._prompt_s:
            part_s = min(self._prompt_s, PROMPT_STEP_S)
            self._prompt_s = max(0.0, self._prompt_s - part_s)
            return self._card.llm_time_s(part_s)
        taken_s = self._card.llm_time_s(natural_s)
        self._pause_s = max(0.0, self._least_token_s - taken_s)
        return taken_s

    def make(self) -> FromWorker | None:  # type: ignore[override]
        """A token; nothing after a pause or a part of the prompt."""
        if self._silent and not self._at_end():
            return None
        return super().make()


class CardSpeaking:
    """One request to the voice, as the card's model has it. The sound is a tone."""

    def __init__(self, job: SpeakJob, card: ModelledCard) -> None:
        self._id = job.id
        self._card = card
        audio_s = max(0.1, speech_units(job.text) * card.model.voice.seconds_per_character)
        burst_s = card.draw(job.generation).burst_s
        self._steps = deque(speech_steps(card.model, card.variant, audio_s, burst_s))
        period = tone(300 + 50 * (job.generation % 40))
        self._sound = period * 500  # 10 s of it
        self._cap = AudioCap(job.cap_s)
        self.computes = True

    def takes_s(self, slow_factor: float) -> float:
        """The next step's time on the card as it is now; the end takes none."""
        if not self._steps:
            return 0.0
        return self._card.voice_time_s(self._steps[0][0]) * (slow_factor or 1.0)

    def make(self) -> FromWorker | None:
        """A block, nothing (a part of the burst), or the end."""
        if not self._steps:
            return DoneSpeak(self._id, Spoken(self._cap.audio_s, self._cap.capped))
        _, audio_s = self._steps.popleft()
        pcm = self._cap.take(self._sound[: 2 * round(audio_s * SPEECH_RATE_HZ)])
        return Block(self._id, pcm) if pcm else None

    def pause(self) -> None:
        """A voice is not paused."""

    def end(self, how: str) -> None:
        """An injected ending; all of them stop it here."""
        self._steps.clear()
