"""Is a transcript a turn of the conversation, or did the recogniser make something of nothing?

Recognisers trained on subtitles write "Thanks for watching" over silence and clicks. Evidence
from the audio and from the recogniser comes first; the list of such phrases counts only
together with weak evidence, because people do say "thank you".
"""

from __future__ import annotations

import regex

from duet_trio.speech.measure import SECONDS_PER_UNIT, speakable, speech_units

_SILENT_DBFS = -60.0  # below the noise of any board's microphone with a voice in front of it
_QUIET_DBFS = -45.0
_SHORT_MS = 400.0
_NO_SPEECH = 0.6  # whisper's own limit
#: Enough by itself: noises gave 0.77 to 0.97 (breath 0.58), words in noise at most 0.5 (measured
#: with whisper-tiny.en).
_SURELY_NO_SPEECH = 0.9
_LOG_PROBABILITY = -0.9  # its own is -1.0; in half a window it is surer of nothing (-0.97)
_COMPRESSION = 2.4
_TOO_FAST = 3.5  # times normal speech
_REPEATS = 6  # "no no no no" is a turn
_ECHO_WORDS = 3  # shorter matches are chance ("yes", "thank you")
_ECHO_SHARE = 0.8

_PHRASES = frozenset(
    {
        "thank you",
        "thank you very much",
        "thanks",
        "thanks for watching",
        "thank you for watching",
        "thank you so much for watching",
        "please subscribe",
        "subscribe to my channel",
        "see you next time",
        "see you in the next video",
        "bye",
        "bye bye",
        "you",
        "the end",
        "mbc news",
        "subtitles by the amara org community",
        "请不吝点赞 订阅 转发 打赏支持明镜与点点栏目",
        "谢谢观看",
        "谢谢大家",
        "字幕由 amara org 社区提供",
        "ご視聴ありがとうございました",
        "vielen dank",
        "untertitel der amara org community",
        "sous titres réalisés par la communauté d amara org",
        "시청해주셔서 감사합니다",
    }
)
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}']+")
_LABEL = regex.compile(r"\s*(?:[\[(（【*♪♫][^\])）】*♪♫]*[\])）】*♪♫]\s*)+[.。]?\s*")
_RUN = regex.compile(r"(.{1,40}?)\1{" + str(_REPEATS - 1) + r",}")


def why_no_turn(
    text: str,
    *,
    speech_ms: float,
    level_dbfs: float,
    no_speech_probability: float = 0.0,
    compression_ratio: float = 1.0,
    mean_log_probability: float = 0.0,
) -> str | None:
    """Why a transcript is not a turn, in a few words for the trace; None if it is one.

    ``speech_ms`` is voiced audio, ``level_dbfs`` the level of the utterance; the others are
    the recogniser's own figures (their defaults say nothing).
    """
    if not speakable(text):
        return "nothing recognised"
    if _LABEL.fullmatch(text):
        return "a sound, not speech"
    if level_dbfs < _SILENT_DBFS:
        return "silence"
    if no_speech_probability > _SURELY_NO_SPEECH or (
        no_speech_probability > _NO_SPEECH and mean_log_probability < _LOG_PROBABILITY
    ):
        return "the recogniser doubts that it is speech"
    plain = _plain(text)
    if compression_ratio > _COMPRESSION or _repeats(plain):
        return "the same words over and over"
    if speech_ms > 0 and speech_units(text) * SECONDS_PER_UNIT * 1000 > _TOO_FAST * max(
        speech_ms, _SHORT_MS
    ):
        return "more text than anybody says in that time"
    weak = (
        speech_ms < _SHORT_MS
        or level_dbfs < _QUIET_DBFS
        or no_speech_probability > _NO_SPEECH / 2
        or mean_log_probability < _LOG_PROBABILITY * 0.8
    )
    if weak and plain in _PHRASES:
        return "a phrase that recognisers invent"
    return None


def is_echo(text: str, own_speech: str) -> bool:
    """Whether ``text`` is what we said ourselves, heard by the board's microphone.

    True when at least three words (or eight characters of a script without spaces) stand in
    ``own_speech`` in the same order, but for one in five.
    """
    heard, own = _plain(text), _plain(own_speech)
    if not heard or not own:
        return False
    if len(heard.split()) < _ECHO_WORDS:
        squeezed = heard.replace(" ", "")
        return not squeezed.isascii() and len(squeezed) >= 8 and squeezed in own.replace(" ", "")
    words, said = heard.split(), own.split()
    return _in_order(words, said) >= _ECHO_SHARE * len(words)


def _in_order(words: list[str], said: list[str]) -> int:
    """Length of the longest common run of ``words`` with gaps, near together in ``said``."""
    best = [0] * (len(said) + 1)
    for word in words:
        diagonal = 0
        for index, other in enumerate(said, start=1):
            above = best[index]
            best[index] = diagonal + 1 if word == other else max(above, best[index - 1])
            diagonal = above
    return best[-1]


def _plain(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


def _repeats(plain: str) -> bool:
    match = _RUN.search(plain + " ")
    return match is not None and len(match[0].strip()) >= 2 * _REPEATS
