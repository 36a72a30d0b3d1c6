"""Pieces: sentence boundaries in a stream, joined they are the text."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st

from duet_trio.speech.budget import MAX_UNITS, Budget, End, Estimates
from duet_trio.speech.measure import first_speakable, speakable, speech_units
from duet_trio.speech.pieces import MAX_CHARACTERS, Piece, PieceMaker, Ruler


class Every:
    """Accepts every sentence, or every clause as well."""

    def __init__(self, *, clauses: bool = False) -> None:
        self._clauses = clauses

    def enough(self, text: str, *, at: End, first: bool, audio_ahead_s: float = 0.0) -> bool:
        return self._clauses or at == "sentence"

    def longest_units(self, *, first: bool) -> int:
        return MAX_UNITS


class Never:
    """Accepts nothing: only the length cuts."""

    def enough(self, text: str, *, at: End, first: bool, audio_ahead_s: float = 0.0) -> bool:
        return False

    def longest_units(self, *, first: bool) -> int:
        return MAX_UNITS


def pieces(chunks: Iterable[str], ruler: Ruler) -> list[str]:
    maker = PieceMaker(ruler)
    out: list[Piece] = []
    for chunk in chunks:
        maker.feed(chunk)
        while (piece := maker.take()) is not None:
            out.append(piece)
    maker.finish()
    while (piece := maker.take()) is not None:
        out.append(piece)
    assert [piece.index for piece in out] == list(range(len(out)))
    return [piece.text for piece in out]


def tokens(text: str) -> list[str]:
    return regex.findall(r" ?\w{1,5}|\s+|.", text, regex.DOTALL)


def check(text: str, expected: list[str], ruler: Ruler) -> None:
    for chunks in ([text], list(text), tokens(text)):
        assert [piece.strip() for piece in pieces(chunks, ruler)] == expected


SENTENCES = {
    "percent": ("It is 15.7% now. Yes.", ["It is 15.7% now.", "Yes."]),
    "metres": ("长度是1.23米。好的！", ["长度是1.23米。", "好的！"]),
    "initials": ("J.K. Rowling wrote it. Then", ["J.K. Rowling wrote it.", "Then"]),
    "spaced initials": ("J. R. Tolkien too. Then", ["J. R. Tolkien too.", "Then"]),
    "address": ("Ping 192.168.1.1 now. Then", ["Ping 192.168.1.1 now.", "Then"]),
    "version": ("Take 1.2.3 of it. Then", ["Take 1.2.3 of it.", "Then"]),
    "dollars": ("It costs $3.14. Cheap!", ["It costs $3.14.", "Cheap!"]),
    "dollars at the end": ("It costs $3.14.", ["It costs $3.14."]),
    "title": (
        "Dr. Smith and Prof. Li came. He left.",
        ["Dr. Smith and Prof. Li came.", "He left."],
    ),
    "etc": ("Tea, milk etc. are here. Drink.", ["Tea, milk etc. are here.", "Drink."]),
    "etc ends": ("Tea, milk etc. Then drink.", ["Tea, milk etc.", "Then drink."]),
    "e.g.": ("Fruit, e.g. Apples. Then", ["Fruit, e.g. Apples.", "Then"]),
    "number 5": ("See No. 5 there. Then", ["See No. 5 there.", "Then"]),
    "no": ("No. I do not.", ["No.", "I do not."]),
    "yes": ("Yes. Oh. Well, I do.", ["Yes.", "Oh.", "Well, I do."]),
    "list": ("1. Milk.\n2. Eggs.", ["1. Milk.", "2. Eggs."]),
    "year": ("It was in 1984. Then", ["It was in 1984.", "Then"]),
    "ellipsis goes on": ("Wait... what? Well... No.", ["Wait... what?", "Well...", "No."]),
    "quotes": ('He said "Stop!" Then left.', ['He said "Stop!"', "Then left."]),
    "quote goes on": ('"Stop!" he said. Then', ['"Stop!" he said.', "Then"]),
    "brand": ("Yahoo! is one. Then", ["Yahoo! is one.", "Then"]),
    "marks": ("What?! Really!!! Yes.", ["What?!", "Really!!!", "Yes."]),
    "chinese": ("你好。“再见。”他说！对？", ["你好。", "“再见。”", "他说！", "对？"]),
    "chinese with latin marks": ("你好!我是小智.好吗?好", ["你好!", "我是小智.", "好吗?", "好"]),
    "japanese": ("「はい。」と言った。終わり", ["「はい。」", "と言った。", "終わり"]),
    "lines": ("Title\nText\n\nMore", ["Title", "Text", "More"]),
    "domain": ("Look at example.com for it. Then", ["Look at example.com for it.", "Then"]),
    "pm": ("At 5 p.m. we go. Then", ["At 5 p.m. we go.", "Then"]),
    "smiley joined": ("... Hello. :) Bye.", ["... Hello.", ":) Bye."]),
    "hindi": ("नमस्ते। कैसे हो?", ["नमस्ते।", "कैसे हो?"]),
}


@pytest.mark.parametrize(("text", "expected"), SENTENCES.values(), ids=SENTENCES.keys())
def test_sentences(text: str, expected: list[str]) -> None:
    check(text, expected, Every())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One, two; three: four", ["One,", "two;", "three:", "four"]),
        ("1,000 and 10:30", ["1,000 and 10:30"]),
        ("so it is - and – then", ["so it is - and –", "then"]),
        ("so—then", ["so—", "then"]),
        ("pages 3–5", ["pages 3–5"]),
        ("甲，乙、丙；丁", ["甲，", "乙、", "丙；", "丁"]),
        ("Well... maybe", ["Well...", "maybe"]),
    ],
)
def test_clauses_count_when_the_budget_takes_them(text: str, expected: list[str]) -> None:
    check(text, expected, Every(clauses=True))


@pytest.mark.parametrize("text", ["", " \n ", "...", "!?", "— “” …", "***"])
def test_nothing_to_say_gives_no_piece(text: str) -> None:
    check(text, [], Every(clauses=True))
    check(text, [], Never())


def test_a_piece_is_ready_as_soon_as_the_next_token_decides() -> None:
    maker = PieceMaker(Every())
    for token in ("It costs $3.", "14.", " "):
        maker.feed(token)
        assert (maker.ready, maker.take()) == (False, None)
    assert maker.pending == "It costs $3.14. "
    maker.feed("Then")
    assert (maker.ready, maker.pending) == (True, " Then")
    assert maker.take() == Piece(0, "It costs $3.14.")


def test_a_chinese_sentence_is_ready_one_character_later() -> None:
    maker = PieceMaker(Every())
    maker.feed("你好。")
    assert not maker.ready
    maker.feed("我")
    assert maker.take() == Piece(0, "你好。")


def test_long_text_without_marks_is_cut_at_word_borders() -> None:
    text = "word " * 120
    for chunks in ([text], list(text), tokens(text)):
        got = pieces(chunks, Never())
        assert "".join(got) == text
        assert all(len(piece) <= MAX_CHARACTERS for piece in got)
        assert all(set(piece.split()) <= {"word"} for piece in got)
        assert len(got) == 3


def test_long_text_is_cut_at_its_last_sentence_rather_than_anywhere() -> None:
    text = "A first sentence that is short enough, and fine. " + "Word " * 60
    assert pieces(text, Never())[0].strip() == "A first sentence that is short enough, and fine."


def test_six_hundred_letters_and_chinese_are_cut_anywhere() -> None:
    assert [len(piece) for piece in pieces(["a" * 600], Never())] == [250, 250, 100]
    got = pieces(["字" * 200], Never())
    assert "".join(got) == "字" * 200
    assert all(speech_units(piece) <= MAX_UNITS for piece in got)


def test_combining_marks_stay_with_their_letter() -> None:
    got = pieces(["x" + "e\u0301" * 300], Never())
    assert all(not piece.startswith("\u0301") for piece in got)


def test_the_real_budget_joins_short_sentences() -> None:
    text = "Yes. Sure. I can tell you a story about a fox who lived by the sea. It was old. "
    text += "It had seen many winters, and it liked none of them, but the last one was good. End."
    expected = [
        "Yes. Sure. I can tell you a story about a fox who lived by the sea.",
        "It was old. It had seen many winters, and it liked none of them,",
        "but the last one was good. End.",
    ]
    for chunks in ([text], list(text), tokens(text)):
        got = [piece.strip() for piece in pieces(chunks, Budget(Estimates()))]
        assert got == expected


STALLS = {
    "a sentence": ("It is a fox.", "It is a fox."),
    "a price": ("It costs $3.14.", "It costs $3.14."),
    "a number that may go on": ("It costs $3.", None),
    "behind it a sentence that may not": ("It is late. It costs $3.", "It is late."),
    "thousands": ("There were, as far as we know, 1,", "There were, as far as we know,"),
    "a title": ("I asked Dr.", None),
    "initials": ("It was J.K.", None),
    "a quotation": ('She said "Hello!"', 'She said "Hello!"'),
    "a long clause": ("When the evening came at last,", "When the evening came at last,"),
    "a short clause": ("Well,", None),
    "a sentence and a short clause": ("Yes. But,", "Yes."),
    "in the middle": ("She went to the", None),
    "in the middle of the second": ("She went home. Then she", "She went home."),
    "nothing to say": ("... !", None),
    "nothing": ("", None),
    "Chinese": ("\u4f60\u597d\u3002", "\u4f60\u597d\u3002"),
    "Chinese, in the middle": ("\u4f60\u597d", None),
}


@pytest.mark.parametrize(("text", "flushed"), STALLS.values(), ids=STALLS)
def test_what_may_go_when_the_writer_stalls(text: str, flushed: str | None) -> None:
    for chunks in ([text], list(text)):
        maker = PieceMaker(Never())
        for chunk in chunks:
            maker.feed(chunk)
        assert maker.flush_stalled() is (flushed is not None)
        piece = maker.take()
        assert (piece.text if piece else None) == flushed
        assert maker.pending == text[len(flushed or "") :]
        assert not maker.flush_stalled()


TEXT = st.text(
    st.sampled_from("abIZ01 .,!?;:—-…\n\"')(。，！”字é\u0301$%"), max_size=120
) | st.lists(
    st.sampled_from(
        [
            *(
                "Dr. ",
                "word ",
                "No. ",
                "5",
                "3.14",
                ". ",
                "! ",
                "…",
                "。",
                "，",
                "字字",
                "\n",
                ", ",
            ),
            *("J.K. ", "e.g. ", '"', " — ", "x" * 90, "字" * 40, "z " * 50, "!" * 30),
        ]
    ),
    max_size=25,
).map("".join)
RULERS = st.sampled_from(
    [
        Every(),
        Every(clauses=True),
        Never(),
        Budget(Estimates()),
        Budget(Estimates(real_time_factor=2)),
        Budget(Estimates(real_time_factor=0.1)),
    ]
)


@settings(max_examples=400, deadline=None)
@given(TEXT, RULERS, st.data())
@example("a. " + " " * 300 + "b", Every(), None)
@example("!" * 600 + "a" * 600, Every(), None)
@example("a" + "." * 600, Every(), None)
@example("word " * 49 + "abc.  Yes.", Every(), None)  # the limit hides what decides
def test_pieces_do_not_depend_on_the_split(
    text: str, ruler: Ruler, data: st.DataObject | None
) -> None:
    whole = pieces([text], ruler)
    assert pieces(text, ruler) == whole
    assert pieces(tokens(text), ruler) == whole
    if data is not None:
        cut = data.draw(st.integers(0, len(text)))
        assert pieces([text[:cut], text[cut:]], ruler) == whole


@settings(max_examples=400, deadline=None)
@given(TEXT, RULERS)
def test_joined_pieces_are_the_text(text: str, ruler: Ruler) -> None:
    got = pieces([text], ruler)
    joined = "".join(got)
    assert text.startswith(joined)
    assert not speakable(text[len(joined) :])
    for piece in got:
        assert speakable(piece)
        spoken = piece[first_speakable(piece) :]
        assert len(spoken) <= MAX_CHARACTERS
        assert speech_units(spoken) <= MAX_UNITS


@settings(max_examples=300, deadline=None)
@given(TEXT, RULERS, st.data())
def test_flushes_at_any_time_lose_no_text(text: str, ruler: Ruler, data: st.DataObject) -> None:
    maker = PieceMaker(ruler)
    joined = ""
    for chunk in tokens(text):
        maker.feed(chunk)
        if data.draw(st.booleans()):
            maker.flush_stalled()
        while (piece := maker.take()) is not None:
            assert speakable(piece.text)
            joined += piece.text
        assert text.startswith(joined + maker.pending)
    maker.finish()
    while (piece := maker.take()) is not None:
        joined += piece.text
    assert text.startswith(joined)
    assert not speakable(text[len(joined) :])
