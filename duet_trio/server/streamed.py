"""A response's body that is made while it is sent."""

from __future__ import annotations

from abc import abstractmethod
from types import TracebackType
from typing import Self

from quart.wrappers.response import ResponseBody


class StreamedBody(ResponseBody):
    """What feeds it lives in the request's nursery and ends with that.

    quart enters it, iterates over it and leaves it, all in the request's task.
    """

    async def __aenter__(self) -> Self:
        """Itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Nothing to give back."""

    def __aiter__(self) -> Self:
        """Itself."""
        return self

    @abstractmethod
    async def __anext__(self) -> bytes:
        """The next part. Raises `StopAsyncIteration` after the last."""
