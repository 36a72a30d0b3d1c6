"""``duet bench ears``: how well it listens, and how soon it answers.

Offline, faster than real time: cut early, never ended, first word lost, against the endpoint
length; turns made of noise; what a hundred listening boards cost. On a real server: from the end
of speech to its text and to the first packet, and where that time goes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from duet_trio.bench import ears_live
from duet_trio.bench.answer import speak_all
from duet_trio.bench.ears_corpus import (
    SENTENCES,
    floats,
    noise_tracks,
    recordings,
    texts,
)
from duet_trio.bench.ears_offline import false_turns, listening_cost, prepare, table
from duet_trio.bench.figures import machine
from duet_trio.bench.processes import named_config
from duet_trio.config import Config, load
from duet_trio.engines.contracts import ListenRequest
from duet_trio.engines.factory import EngineSet
from duet_trio.engines.silero import SileroDetector, find_model
from duet_trio.speech.endpoint import Utterance
from duet_trio.speech.guards import why_no_turn
from duet_trio.speech.pcm import level_dbfs

ENDPOINTS_MS = (300, 400, 500, 600, 700, 800, 1000)
NOISE_S = 60.0
SETTINGS = ("llm.max_tokens=40",)


@dataclass(frozen=True, slots=True)
class EarsOptions:
    """``questions``: on the real server (0: none); ``boards`` listened to at once."""

    questions: int
    boards: int
    config: str


async def measure(options: EarsOptions) -> dict[str, Any]:
    """Run the bench; returns what ``--json`` prints."""
    path = named_config(options.config)
    config = load(path)
    said = texts()
    spoken = dict(zip(said, await speak_all(path, said), strict=True))
    detector = SileroDetector(find_model(config.vad.model))
    prepared = prepare(detector, recordings(spoken))
    noise = false_turns(detector, config.vad, noise_tracks(spoken, NOISE_S))
    figures: dict[str, Any] = {
        "machine": machine(),
        "load": [round(value, 2) for value in os.getloadavg()],
        "config": options.config,
        "utterances": len(prepared),
        "default_endpoint_ms": config.vad.endpoint_ms,
        "table": table(prepared, config.vad, ENDPOINTS_MS),
        "noise": await _guarded(config, noise),
        "boards": options.boards,
        "cores_for_boards": round(
            listening_cost(detector, floats(spoken[SENTENCES[1]]), options.boards), 3
        ),
    }
    if options.questions:
        questions = [spoken[SENTENCES[n % len(SENTENCES)]] for n in range(options.questions)]
        figures["live"] = await _live(path, questions)
    return figures


async def _live(path: Path, questions: Sequence[bytes]) -> dict[str, Any]:
    return await ears_live.measure(path, questions, SETTINGS)


async def _guarded(config: Config, noise: Mapping[str, Sequence[Utterance]]) -> dict[str, Any]:
    """How many utterances each noise made, and how many turns are left after the guards."""
    engines = EngineSet(config)
    found: dict[str, Any] = {}
    async with trio.open_nursery() as nursery:
        await nursery.start(engines.services["asr"].run)
        await engines.services["asr"].wait_ready()
        for name, utterances in noise.items():
            turns = []
            for utterance in utterances:
                text = await engines.asr.transcribe(ListenRequest(utterance.pcm, language="en"))
                refusal = why_no_turn(
                    text.text,
                    speech_ms=utterance.speech_ms,
                    level_dbfs=level_dbfs(utterance.pcm),
                    no_speech_probability=text.no_speech_probability,
                    compression_ratio=text.compression_ratio,
                    mean_log_probability=text.mean_log_probability,
                )
                if refusal is None:
                    turns.append(text.text)
            found[name] = {"utterances": len(utterances), "turns": turns}
        nursery.cancel_scope.cancel()
    return found


def report(figures: dict[str, Any]) -> str:
    """The figures for a person."""
    lines = [
        f"on {figures['machine']['cpu']}, {figures['config']}, load {figures['load'][0]}",
        f"{figures['utterances']} utterances; shares in %, delay = end of speech to the decision",
        "endpoint   noise      speech   cut early  never ended  missed  first word lost  delay",
    ]
    for row in figures["table"]:
        snr = "none" if row["snr_db"] is None else f"{row['snr_db']} dB"
        lines.append(
            f"{row['endpoint_ms']:5d} ms   {snr:>6s}   {row['kind']:>8s}"
            f"  {100 * row['cut_early']:9.1f}  {100 * row['never_ended']:11.1f}"
            f"  {100 * row['missed']:6.1f}  {100 * row['first_word_lost']:15.1f}"
            f"  {row['delay_ms'] or 0:5d}"
        )
    for name, result in figures["noise"].items():
        lines.append(
            f"a minute of {name}: {result['utterances']} utterances, {len(result['turns'])} turns"
        )
    lines.append(
        f"{figures['boards']} boards listened to at once: {figures['cores_for_boards']:.2f} cores"
    )
    if live := figures.get("live"):
        lines += _live_lines(live)
    return "\n".join(lines)


def _live_lines(live: dict[str, Any]) -> list[str]:
    text, packet = live["speech_end_to_text_ms"], live["speech_end_to_packet_ms"]
    share = 100 * live["text_within_100_ms_of_endpoint"]
    return [
        f"end of speech → text:   median {text['median']:.0f}  largest {text['largest']:.0f} ms;"
        f" within 100 ms of the endpoint: {share:.0f} %",
        f"end of speech → packet: median {packet['median']:.0f}  largest {packet['largest']:.0f} ms"
        f"  ({live['answered']} of {live['asked']} answered)",
        *(f"  {name:32s} {ms:7.1f} ms" for name, ms in live["steps_ms"].items()),
    ]
