"""Who gets which sequence: pure bookkeeping, against a model of what memory really holds."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from duet_trio.engines.adapters.llama_sequences import SequenceTable, Slot, common_prefix


def fill(table: SequenceTable, slot: Slot, tokens: list[int]) -> int:
    """Do what the adapter does; returns how many tokens had to be evaluated."""
    table.cut(slot, common_prefix(slot.tokens, tokens))
    missing = len(tokens) - len(slot.tokens)
    slot.tokens.extend(tokens[len(slot.tokens) :])
    return missing


def test_a_stream_keeps_its_sequence_while_another_takes_the_free_one() -> None:
    table = SequenceTable(2)
    one, two = table.take(1, [5, 6]), table.take(2, [5, 6])
    assert {one.index, two.index} == {0, 1}
    assert table.take(1, [5, 6, 7]) is one
    assert table.take(2, [5, 6, 8]) is two


def test_the_next_turn_of_a_conversation_finds_its_own_past() -> None:
    table = SequenceTable(3)
    for stream, tokens in ((1, [1, 2, 3, 4]), (2, [1, 2, 9]), (3, [1, 7])):
        fill(table, table.take(stream, tokens), tokens)
        table.release(stream)
    assert table.take(4, [1, 2, 3, 4, 5]).tokens == [1, 2, 3, 4]
    assert table.take(5, [1, 7, 7]).tokens == [1, 7]


def test_among_equals_the_one_unused_for_longest_is_overwritten() -> None:
    table = SequenceTable(2)
    first, second = table.take(1, [1]), table.take(2, [2])
    table.release(1)
    table.release(2)
    assert table.take(3, [3]) is first
    assert table.take(4, [4]) is second


def test_with_none_free_the_least_recently_used_changes_hands() -> None:
    table = SequenceTable(2)
    one = table.take(1, [1])
    two = table.take(2, [2])
    table.take(1, [1])
    assert table.take(3, [3]) is two
    assert two.owner == 3
    assert one.owner == 1


def test_what_was_computed_once_is_known_even_after_it_was_overwritten() -> None:
    table = SequenceTable(1)
    fill(table, table.take(1, [1, 2, 3, 4]), [1, 2, 3, 4])
    fill(table, table.take(2, [1, 9]), [1, 9])
    assert table.computed_before([1, 2, 3, 4, 5]) == 4
    assert table.computed_before([1, 9, 9]) == 2
    assert table.computed_before([7]) == 0


STEPS = st.lists(
    st.tuples(
        st.integers(0, 4), st.lists(st.integers(0, 2), min_size=1, max_size=3), st.booleans()
    ),
    max_size=40,
)


@settings(max_examples=200, deadline=None)
@given(count=st.integers(1, 3), steps=STEPS)
def test_no_stream_ever_sits_on_anothers_tokens(
    count: int, steps: list[tuple[int, list[int], bool]]
) -> None:
    table = SequenceTable(count)
    streams: dict[int, list[int]] = {}
    for stream, more, closes in steps:
        tokens = streams.setdefault(stream, [stream])
        tokens += more
        before = table.computed_before(tokens)
        slot = table.take(stream, tokens)
        assert [s.owner for s in table.slots].count(stream) == 1
        missing = fill(table, slot, list(tokens))
        assert slot.tokens == tokens
        # What had been computed, minus what is still there, is what counts as twice.
        assert before - (len(tokens) - missing) >= 0
        if closes:
            table.release(stream)
            del streams[stream]
            assert stream not in [s.owner for s in table.slots]
