"""`EngineSet`: the three engines, the gate to the GPU and the admission, from a `Config`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import trio

from duet_trio.config import AsrSection, Config, LlmSection, TtsSection
from duet_trio.engines.admission import Admission
from duet_trio.engines.carrier import Carrier
from duet_trio.engines.client import AsrClient, LlmClient, TtsClient
from duet_trio.engines.contracts import Asr, EngineKind, EngineStatus, Llm, Tts
from duet_trio.engines.gpu_turn import GpuTurn, SelectiveGate, Who
from duet_trio.engines.native.settings import tts_settings
from duet_trio.engines.process import ProcessCarrier
from duet_trio.engines.remote.asr import RemoteAsr
from duet_trio.engines.remote.llm import RemoteLlm
from duet_trio.engines.remote.service import RemoteService
from duet_trio.engines.remote.tts import RemoteTts
from duet_trio.engines.supervisor import EngineService
from duet_trio.errors import UsageError
from duet_trio.events import NullRecorder, Recorder

#: Makes the carrier of one engine from its kind and its settings.
CarrierFactory = Callable[[EngineKind, dict[str, Any]], Carrier]


def in_worker_process(kind: EngineKind, settings: dict[str, Any]) -> Carrier:
    """The carrier of every ordinary run. (`InProcessCarrier` has the same two arguments.)"""
    return ProcessCarrier(kind)


class EngineSet:
    """Everything that speaks to engines. ``run`` it in a nursery that outlives all answers.

    ``asr``, ``llm``, ``tts`` are the contracts' implementations; ``gate`` is the `TurnGate` for
    all of them (engines that need no turn find it open); ``gpu_turn`` is the real one inside.
    """

    def __init__(
        self,
        config: Config,
        recorder: Recorder | None = None,
        carriers: CarrierFactory = in_worker_process,
    ) -> None:
        recorder = recorder if recorder is not None else NullRecorder()
        self._gpu: dict[EngineKind, bool] = {
            "tts": config.tts.gpu,
            "llm": config.llm.gpu,
            "asr": False,
        }
        load_turn = trio.Semaphore(1, max_value=1)
        self.services: dict[EngineKind, EngineService | RemoteService] = {}
        sections: dict[EngineKind, AsrSection | LlmSection | TtsSection] = {
            "tts": config.tts,
            "llm": config.llm,
            "asr": config.asr,
        }
        for kind, section in sections.items():
            if section.engine == "openai":
                self.services[kind] = RemoteService(kind, section, recorder)
                continue
            settings = tts_settings(config) if kind == "tts" else msgspec.to_builtins(section)
            self.services[kind] = EngineService(
                kind,
                settings,
                carriers(kind, settings),
                load_s=section.load_s,
                recorder=recorder,
                load_turn=load_turn if self._gpu[kind] else None,
            )
        self.asr = _asr(self.services["asr"], config)
        self.llm = _llm(self.services["llm"], config)
        self.tts = _tts(self.services["tts"], config)
        self.gpu_turn = GpuTurn(recorder)
        needs: set[Who] = {kind for kind, gpu in self._gpu.items() if gpu}
        if config.llm.overlap:
            needs.discard("llm")
        self.gate = SelectiveGate(self.gpu_turn, needs, recorder)
        self.admission = Admission(config.answer.max_load, recorder)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Start all workers and supervise them until cancelled; ``started`` while they load.

        GPU workers load one after the other, the voice first (it allocates the most at once);
        the others in parallel.
        """
        async with trio.open_nursery() as nursery:
            await nursery.start(self.services["tts"].run)
            nursery.start_soon(self.services["llm"].run)
            nursery.start_soon(self.services["asr"].run)
            task_status.started()

    async def wait_ready(self) -> None:
        """Wait until all engines are ready.

        Raises the `UsageError` of the first that never will be: a missing model, for example.
        """
        failures: list[UsageError] = []
        async with trio.open_nursery() as nursery:

            async def wait(service: EngineService | RemoteService) -> None:
                try:
                    await service.wait_ready()
                except UsageError as error:
                    failures.append(error)
                    nursery.cancel_scope.cancel()

            for service in self.services.values():
                nursery.start_soon(wait, service)
        if failures:
            raise failures[0]

    @property
    def ready(self) -> bool:
        """Are all engines ready (or busy) now?"""
        return all(service.state in ("ready", "busy") for service in self.services.values())

    @property
    def failed(self) -> UsageError | None:
        """Why an engine has failed for good, if one has."""
        failures = (service.failure for service in self.services.values())
        return next((failure for failure in failures if failure is not None), None)

    def statuses(self) -> list[EngineStatus]:
        """Of all engines, for ``/health``: recogniser, writer, voice."""
        kinds: tuple[EngineKind, ...] = ("asr", "llm", "tts")
        return [self.services[kind].status() for kind in kinds]


def _asr(service: EngineService | RemoteService, config: Config) -> Asr:
    if isinstance(service, RemoteService):
        return RemoteAsr(service, config.asr)
    return AsrClient(service, config.asr)


def _llm(service: EngineService | RemoteService, config: Config) -> Llm:
    if isinstance(service, RemoteService):
        return RemoteLlm(service, config.llm)
    return LlmClient(service, config.llm)


def _tts(service: EngineService | RemoteService, config: Config) -> Tts:
    if isinstance(service, RemoteService):
        return RemoteTts(service, config.tts)
    return TtsClient(service, config.tts)
