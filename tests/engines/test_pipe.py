"""The pipe protocol: every message, any chunking, garbage."""

from __future__ import annotations

import typing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duet_trio.engines import pipe
from duet_trio.engines.contracts import Inject, Message, Spoken, Transcript, Written
from duet_trio.engines.pipe import FromWorker, ToWorker, client_decoder, encode, worker_decoder
from duet_trio.errors import EngineCrashedError

TO_WORKER: list[ToWorker] = [
    pipe.Load({"engine": "x", "script": ["a", "b"], "rtf": 0.5, "gpu": True}),
    pipe.TranscribeJob(1, b"\0\1" * 9, "en", Inject("hang")),
    pipe.WriteJob(2, 7, 64, [Message("system", "be"), Message("user", "hé")], "so far"),
    pipe.WriteJob(3, 7, 64),
    pipe.SpeakJob(4, "hello", 3, 1, 4.0, "voice", 9, Inject("slow", 2, 1.3)),
    pipe.Cancel(4),
    pipe.Pause(3),
    pipe.CloseStream(7),
]
FROM_WORKER: list[FromWorker] = [
    pipe.Ready(2, 8.0, {"model": "m"}, ["<|turn>"]),
    pipe.LoadFailed("no file", "file", "/x"),
    pipe.Text(1, "hé"),
    pipe.Block(1, b"\1\2"),
    pipe.DoneTranscribe(1, Transcript("hi", "en", 0.1, 1.2, -0.3)),
    pipe.DoneWrite(1, Written(3, True, 10, 2)),
    pipe.DoneSpeak(1, Spoken(1.5, True)),
    pipe.Failed(1, "why", lost=True),
    pipe.Failed(1, "why", reason="words for people"),
    pipe.Cancelled(1),
    pipe.Injected(1, "late"),
]


def test_every_message_has_an_example() -> None:
    assert {type(m) for m in TO_WORKER} == set(typing.get_args(ToWorker))
    assert {type(m) for m in FROM_WORKER} == set(typing.get_args(FromWorker))


@given(st.lists(st.integers(1, 50)))
@settings(max_examples=50, deadline=None)
def test_any_chunking_gives_the_same_messages(cuts: list[int]) -> None:
    to_worker, from_worker = worker_decoder(), client_decoder()
    for decoder, messages in ((to_worker, TO_WORKER), (from_worker, FROM_WORKER)):
        data = b"".join(encode(m) for m in messages)
        got: list[object] = []
        for size in [*cuts, len(data)]:
            decoder.feed(data[:size])
            data = data[size:]
            got += decoder
        assert got == messages
        assert decoder.pending_bytes == 0


def outcome(chunks: list[bytes]) -> tuple[list[object], str]:
    decoder = client_decoder()
    got: list[object] = []
    for chunk in chunks:
        decoder.feed(chunk)
        try:
            for message in decoder:
                got.append(message)
        except EngineCrashedError as error:
            return got, str(error)
    return got, f"waiting for more, {decoder.pending_bytes} bytes held"


@given(st.binary(max_size=200), st.sampled_from(FROM_WORKER))
@settings(max_examples=200, deadline=None)
def test_garbage_is_the_same_whole_and_byte_by_byte(garbage: bytes, first: FromWorker) -> None:
    data = encode(first) + garbage
    whole = outcome([data])
    assert whole == outcome([data[i : i + 1] for i in range(len(data))])
    assert whole[0][0] == first


def test_oversized_is_refused_at_its_header() -> None:
    decoder = client_decoder()
    decoder.feed((pipe.MAX_MESSAGE_BYTES + 1).to_bytes(4, "big"))
    with pytest.raises(EngineCrashedError, match="at most"):
        list(decoder)


def test_a_broken_stream_stays_broken() -> None:
    decoder = client_decoder()
    decoder.feed(b"\0\0\0\2ab" + encode(pipe.Cancelled(1)))
    for _ in range(2):
        with pytest.raises(EngineCrashedError, match="cannot be read"):
            list(decoder)


def test_encode_refuses_what_no_decoder_would_take() -> None:
    with pytest.raises(ValueError, match="at most"):
        encode(pipe.Block(1, bytes(pipe.MAX_MESSAGE_BYTES)))
