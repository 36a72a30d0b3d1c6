"""Fixtures that every test may use."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import trio._core._run as trio_run

SCHEDULER_SEEDS = (1, 2, 3)


@pytest.fixture(params=SCHEDULER_SEEDS)
def scheduler_seed(request: pytest.FixtureRequest) -> Iterator[int]:
    """Run the test once per seed of trio's task order (order is no contract of trio's)."""
    seed = int(request.param)
    saved = trio_run._r
    trio_run._r = random.Random(seed)
    yield seed
    trio_run._r = saved
