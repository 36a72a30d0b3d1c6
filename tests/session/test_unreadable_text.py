"""Text in a script that the voice lacks: left out, said once, and the rest is spoken."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from duet_trio.board.result import BoardResult
from duet_trio.board.script import Question
from duet_trio.engines.contracts import Hold, SpeechRequest, Spoken, Tts
from duet_trio.engines.words import failed
from duet_trio.errors import UNREADABLE, UnreadableError
from duet_trio.lab.lab import Lab, open_lab
from duet_trio.session.services import Services
from tests.protocol.peer import scripted

HELLO = "\u4f60\u597d\u5417\u6211\u662f\u4e00\u4e2a\u5c0f\u673a\u5668\u4eba\u3002" * 2
ENGLISH = "This is an English sentence which is long enough to be a piece."


@dataclass
class EnglishVoice:
    """Reads ASCII letters, as the Piper voices do."""

    inner: Tts

    @property
    def slots(self) -> int:
        return self.inner.slots

    async def speak(
        self, request: SpeechRequest, on_block: Callable[[bytes], None], hold: Hold | None = None
    ) -> Spoken:
        read = "".join(char for char in request.text if char.isascii())
        if not any(char.isalnum() for char in read):
            raise UnreadableError(f"tts: nothing to read aloud in {request.text!r}")
        spoken = await self.inner.speak(replace(request, text=read), on_block, hold)
        return replace(spoken, incomplete=read != request.text)


def english(services: Services) -> Services:
    return replace(services, tts=EnglishVoice(services.tts))


async def answer(text: str, *settings: str) -> tuple[Lab, BoardResult]:
    config = scripted(f"llm.script=[{text!r}]", "tts.rtf=0.3", *settings)
    async with open_lab(config, wrap=english) as lab:
        result = await lab.board(1).run([Question("Are you there?")])
    return lab, result


@pytest.mark.parametrize("shared", ["false", "true"])
@pytest.mark.parametrize("text", [f"{HELLO}{ENGLISH} {HELLO}", f"{ENGLISH} {HELLO}{ENGLISH}"])
async def test_the_rest_is_spoken(
    text: str,
    shared: str,
    autojump_clock: object,
    scheduler_seed: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    lab, result = await answer(text, f"llm.gpu={shared}", f"tts.gpu={shared}")
    (end,) = lab.events("answer.end")
    assert end["outcome"] == "done"
    heard = str(end["heard"]).replace(ENGLISH, "E").replace(" ", "")
    assert heard == "E" * text.count(ENGLISH)
    assert result.answered
    assert not result.turns[0].alerts
    skipped = lab.events("tts.skipped")
    assert len(skipped) == len(lab.events("piece")) - len(lab.events("tts.end")) >= 1
    assert {event["whole"] for event in skipped} == {True}
    said = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert len(said) == 1
    assert "left out" in said[0].getMessage()


async def test_words_within_a_piece_are_left_out(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    """So little of it is spoken that it would count as a failed synthesis otherwise."""
    lab, result = await answer(f"Oh: {HELLO.replace(chr(0x3002), '')}.")
    assert [event["whole"] for event in lab.events("tts.skipped")] == [False]
    assert lab.events("answer.end")[0]["outcome"] == "done"
    assert result.answered
    assert caplog.text.count("left out") == 1


async def test_an_answer_of_which_nothing_can_be_read_says_so(
    autojump_clock: object, scheduler_seed: int
) -> None:
    lab, result = await answer(HELLO * 3)
    (end,) = lab.events("answer.end")
    assert (end["outcome"], end["cause"], end["heard"]) == ("failed", UNREADABLE, "")
    assert len(lab.events("tts.skipped")) == len(lab.events("piece")) > 1
    assert result.turns[0].alerts == [UNREADABLE]
    assert len([one for one in lab.events("sent") if one["what"] == "tts.stop"]) == 1


def test_the_error_is_the_same_behind_a_pipe() -> None:
    error = UnreadableError("tts: nothing to read aloud")
    assert isinstance(failed("tts", str(error), error.reason), UnreadableError)
    assert not isinstance(failed("tts", str(error), ""), UnreadableError)
