"""The compiled interface, checked at import: is it there, and is it the one we were written for?

By its number: a stale build in an editable checkout (``git pull`` without installing again) would
else lack functions or mean something else by a field. Every change of the header counts it up.
"""

from __future__ import annotations

from typing import Any

from duet_trio.errors import MissingLibraryError

#: ``DV_ABI`` of ``native/duet_voice.h`` that this Python code is for.
ABI = 2
_AGAIN = "run `pip install -e .` (or `pip install .`) again; it needs a C compiler"


def _load() -> tuple[Any, Any]:
    try:
        from duet_trio.engines.native._voice import ffi, lib
    except ImportError as error:
        raise MissingLibraryError(
            f"the native voice has not been built ({error}); {_AGAIN}"
        ) from None
    check_abi(int(lib.dv_abi()))
    return ffi, lib


def check_abi(built: int) -> None:
    """Raise `MissingLibraryError` unless the build has our `ABI`."""
    if built != ABI:
        raise MissingLibraryError(
            f"the native voice was built with interface {built}, this version needs {ABI}; {_AGAIN}"
        )


ffi, lib = _load()
