"""The demo voice's memory: bounded by its longest sentence, however many lengths it has read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# In a process of its own: what others have left free in this one would hide the growth.
PROGRAM = """
import os
import msgspec
from duet_trio.bench.soak_look import look
from duet_trio.config import TtsSection
from duet_trio.engines.adapters.piper import PiperAdapter
from duet_trio.engines.pipe import SpeakJob

WORDS = (
    "the cat and the dog went over the river to see a house in the morning and then "
    "they walked back home again very slowly"
).split()
piper = PiperAdapter()
piper.load(msgspec.to_builtins(TtsSection()))


def own():
    return look(os.getpid()).processes[0].own_mb


def read(words):
    text = " ".join(WORDS[:words]).capitalize() + "."
    piper.speak(SpeakJob(1, text, 1, 1, cap_s=60.0), lambda block: None, lambda: False)


before = own()
for words in [24] * 4 + 2 * list(range(24, 1, -1)):
    read(words)
print(own() - before)
"""


@pytest.mark.slow
@pytest.mark.models
@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="needs /proc")
def test_sentences_of_many_lengths_need_no_more_than_the_longest() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=True
    )
    assert float(done.stdout) < 120  # 80 MB measured; 165 to 180 with a pattern per length
