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
        estimates=first_estimates(config),
        generations=count(1),
        detector=detector,
        make_encoder=partial(
            Encoder, complexity=config.pacer.complexity, bitrate=config.pacer.bitrate
        ),
    )


def first_estimates(config: Config) -> Estimates:
    """What is believed of the engines before anything has been measured.

    The defaults are those of a large voice on a card. A Piper voice makes speech several times
    faster than it is spoken (0.19-0.21 of real time beside a busy model on two cores, 0.05 alone);
    taken for a slow one, its first answer began with a piece of up to a dozen seconds.
    """
    return Estimates(real_time_factor=0.2) if config.tts.engine == "piper" else Estimates()


def make_faults(config: Config, recorder: Recorder) -> Faults:
    """What ``faults.plan`` asks for (nothing, as a rule). Raises `ConfigError`."""
    path = config.faults.plan
    return Faults(load_plan(Path(path).expanduser()) if path else Plan(), recorder)
