"""Somebody plays with a board's buttons: what was said counts, whatever was pressed before."""

from __future__ import annotations

import pytest
import trio

from duet_trio.lab.lab import loud, open_lab, quiet
from tests.protocol.peer import Ears, meeting, scripted


@pytest.mark.parametrize("pause_s", [0.0, 0.05, 0.1, 0.19, 0.21])
async def test_a_key_that_is_pressed_again_at_once_is_a_new_utterance(
    autojump_clock: object, pause_s: float
) -> None:
    """The first utterance still waits for its late packets then."""
    ears = Ears()
    async with open_lab(scripted(), wrap=ears.wrap) as lab, meeting(lab) as peer:
        await peer.listen("manual")
        await peer.speak(loud(0.6))  # the key goes up in mid-word
        await peer.say("listen", state="stop")
        await trio.sleep(pause_s)
        await peer.listen("manual")
        await peer.speak(quiet(0.1) + loud(2.0))
        await peer.say("listen", state="stop")
        await peer.stopped()
        assert ears.seconds()[-1] == pytest.approx(2.0, abs=0.3)
