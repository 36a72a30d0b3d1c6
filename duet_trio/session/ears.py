"""One board's ears put together: recogniser, interruption and listener."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import trio

from duet_trio.errors import EngineError
from duet_trio.session.conversation import Conversation
from duet_trio.session.interruption import Interruption
from duet_trio.session.listener import Listener
from duet_trio.session.recognition import Heard, Recognition
from duet_trio.session.services import Services


def make_listener(
    services: Services,
    nursery: trio.Nursery,
    conversation: Conversation,
    *,
    board: str,
    language: str,
    endpoint_ms: int,
    on_heard: Callable[[Sequence[Heard]], None],
    on_failure: Callable[[EngineError], None],
) -> Listener:
    """The ears; recognition runs in ``nursery``. Both callbacks are synchronous.

    ``on_heard`` gets whole turns, ``on_failure`` what keeps one from being recognised.
    """
    recognition = Recognition(
        services.asr,
        nursery,
        board=board,
        language=lambda: language,
        on_heard=on_heard,
        on_failure=on_failure,
        patience_s=services.config.vad.patience_ms / 1000,
    )
    interruption = Interruption(
        services.config,
        board=board,
        endpoint_ms=endpoint_ms,
        told=services.told_of_barge_in,
        is_answering=lambda: conversation.is_answering,
        on_interruption=partial(conversation.abort, "barge_in"),
    )
    return Listener(
        services.config,
        services.detector.stream(),
        recognition,
        services.recorder,
        interruption,
        board=board,
        endpoint_ms=endpoint_ms,
        turns=services.ear_turns,
    )
