"""Endpoints against the truth, faster than real time: VAD and endpointing alone.

Each recording goes through the uplink's codec and the speech detector once; the endpointer runs
over the probabilities for every endpoint length.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from duet_trio.bench.ears_corpus import RATE_HZ, Recording, Samples, pcm_of
from duet_trio.bench.figures import quantile
from duet_trio.config import VadSection
from duet_trio.engines.silero import SileroDetector
from duet_trio.opus import Decoder, Encoder
from duet_trio.speech.endpoint import CHUNK_BYTES, CHUNK_MS, Endpointer, Utterance

#: Cut later than this before the true end is no cut: the last sound fades there.
FADE_MS = 60.0
#: So long after the end an utterance that is still open counts as never ended.
NEVER_MS = 3000.0


@dataclass(frozen=True, slots=True)
class Chunks:
    """What the detector made of one recording, chunk by chunk."""

    recording: Recording
    pcm: list[bytes]
    probabilities: list[float]


def through_codec(samples: Samples) -> bytes:
    """As it arrives at the server: the uplink's Opus, as boards encode it."""
    encoder = Encoder(RATE_HZ, 60, complexity=0, bitrate=None, dtx=True)
    decoder = Decoder(RATE_HZ, 60)
    return b"".join(decoder.decode(packet) for packet in encoder.packets(pcm_of(samples)))


def detect(detector: SileroDetector, pcm: bytes) -> tuple[list[bytes], list[float]]:
    """Chunks and their probabilities."""
    stream = detector.stream()
    chunks = [
        pcm[start : start + CHUNK_BYTES]
        for start in range(0, len(pcm) - CHUNK_BYTES + 1, CHUNK_BYTES)
    ]
    return chunks, [stream.probability(chunk) for chunk in chunks]


def prepare(detector: SileroDetector, recordings: Iterable[Recording]) -> list[Chunks]:
    """Run the detector over all of them."""
    return [
        Chunks(recording, *detect(detector, through_codec(recording.samples)))
        for recording in recordings
    ]


def utterances(
    settings: VadSection, pcm: Sequence[bytes], probabilities: Sequence[float]
) -> list[tuple[float, float, Utterance]]:
    """Begin (ms), decision (ms) and utterance, in order."""
    endpointer = Endpointer(settings)
    found = []
    for number, (chunk, probability) in enumerate(zip(pcm, probabilities, strict=True), start=1):
        for event in endpointer.feed(chunk, probability):
            if isinstance(event, Utterance):
                decided = number * CHUNK_MS
                found.append((decided - len(event.pcm) / 32, decided, event))
    return found


def judge(prepared: Sequence[Chunks], settings: VadSection) -> dict[str, Any]:
    """Shares (of 1) and the median delay from the true end to the decision."""
    cut = never = first_lost = missed = 0
    delays: list[float] = []
    speculated: list[float] = []
    for item in prepared:
        begins, ends = (1000 * at / RATE_HZ for at in (item.recording.begins, item.recording.ends))
        found = utterances(settings, item.pcm, item.probabilities)
        found = [one for one in found if one[1] > begins]
        if not found:
            if any(p >= settings.threshold for p in item.probabilities):
                never += 1
            else:
                missed += 1
            continue
        cut += found[0][1] < ends - FADE_MS
        first_lost += found[0][0] > begins + CHUNK_MS
        last = next((one for one in found if one[1] >= ends - FADE_MS), None)
        if last is None or last[1] > ends + NEVER_MS:
            never += 1
            continue
        delays.append(last[1] - ends)
        speculated.append(float(last[2].speculation_valid))
    count = max(1, len(prepared))
    return {
        "count": len(prepared),
        "cut_early": round(cut / count, 3),
        "never_ended": round(never / count, 3),
        "missed": round(missed / count, 3),
        "first_word_lost": round(first_lost / count, 3),
        "delay_ms": round(quantile(sorted(delays), 0.5)) if delays else None,
        "speculated": round(sum(speculated) / max(1, len(speculated)), 3),
    }


def table(
    prepared: Sequence[Chunks], vad: VadSection, endpoints_ms: Sequence[int]
) -> list[dict[str, Any]]:
    """One row per endpoint length and noise level."""
    rows = []
    for endpoint_ms in endpoints_ms:
        settings = msgspec.structs.replace(vad, endpoint_ms=endpoint_ms)
        for snr_db in (None, 20, 10, 5):
            for kind in ("plain", "pause"):
                chosen = [
                    item
                    for item in prepared
                    if item.recording.snr_db == snr_db
                    and (item.recording.kind == "pause") == (kind == "pause")
                ]
                if chosen:
                    row = {"endpoint_ms": endpoint_ms, "snr_db": snr_db, "kind": kind}
                    rows.append(row | judge(chosen, settings))
    return rows


def false_turns(
    detector: SileroDetector, vad: VadSection, tracks: Mapping[str, Samples]
) -> dict[str, list[Utterance]]:
    """What the endpointer makes of noise alone, before any recogniser's guards."""
    return {
        name: [one for _, _, one in utterances(vad, *detect(detector, through_codec(track)))]
        for name, track in tracks.items()
    }


def listening_cost(detector: SileroDetector, speech: Samples, boards: int) -> float:
    """Share of one core that so many boards take that are all being listened to."""
    encoder = Encoder(RATE_HZ, 60, complexity=0, bitrate=None, dtx=True)
    packets = list(encoder.packets(pcm_of(speech)))
    ears = [
        (Decoder(RATE_HZ, 60), detector.stream(), Endpointer(VadSection())) for _ in range(boards)
    ]
    rest = [b""] * boards
    started = time.process_time()
    for packet in packets:
        for number, (decoder, stream, endpointer) in enumerate(ears):
            pcm = rest[number] + decoder.decode(packet)
            while len(pcm) >= CHUNK_BYTES:
                endpointer.feed(pcm[:CHUNK_BYTES], stream.probability(pcm[:CHUNK_BYTES]))
                pcm = pcm[CHUNK_BYTES:]
            rest[number] = pcm
    return (time.process_time() - started) / (len(packets) * 0.06)
