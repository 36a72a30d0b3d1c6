"""Puts together what sessions need from a configuration and a set of engines."""

from __future__ import annotations

from functools import partial
from itertools import count
from pathlib import Path

from duet_trio.config import Config
from duet_trio.engines.factory import EngineSet
from duet_trio.events import Recorder
from duet_trio.faults.hub import Faults
from duet_trio.faults.plan import Plan, load_plan
from duet_trio.opus import Encoder
from duet_trio.session.services import Services, VoiceDetector
from duet_trio.speech.budget import Estimates


def make_services(
    config: Config, recorder: Recorder, engines: EngineSet, detector: VoiceDetector
) -> Services:
    """The bundle that every session of one server shares."""
    return Services(
        config=config,
        recorder=recorder,
        asr=engines.asr,
        llm=engines.llm,
        tts=engines.tts,
        gate=engines.gate,
        admission=engines.admission,
        estimates=Estimates(),
        generations=count(1),
        detector=detector,
        make_encoder=partial(
            Encoder, complexity=config.pacer.complexity, bitrate=config.pacer.bitrate
        ),
    )


def make_faults(config: Config, recorder: Recorder) -> Faults:
    """What ``faults.plan`` asks for (nothing, as a rule). Raises `ConfigError`."""
    path = config.faults.plan
    return Faults(load_plan(Path(path).expanduser()) if path else Plan(), recorder)
