"""Files from a Hugging Face repository, for sets that no package carries.

``huggingface_hub`` is imported here only, and only when a set names such a file. It keeps
partial downloads and continues them; revision and hash are pinned in the catalogue.
"""

from __future__ import annotations

from pathlib import Path

from duet_trio.errors import MissingLibraryError, UsageError
from duet_trio.models.catalogue import HubFile, ModelFile
from duet_trio.models.paths import file_state


def fetch_hub_file(file: ModelFile, folder: Path, target: Path) -> None:
    """Download one file below ``folder``, check it and move it to ``target``.

    Raises `MissingLibraryError` without ``huggingface_hub``, `UsageError` when the hub cannot
    be reached or serves another file.
    """
    assert isinstance(file.origin, HubFile)
    origin = file.origin
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError:
        raise MissingLibraryError(
            "models: huggingface_hub is missing; run: pip install huggingface_hub"
        ) from None
    try:
        fetched = Path(
            hf_hub_download(
                origin.repository, origin.name, revision=origin.revision, local_dir=folder
            )
        )
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UsageError(
            f"models: {origin.repository}/{origin.name} cannot be fetched: {reason}"
        ) from None
    if file_state(fetched, file) != "there":
        fetched.unlink()
        raise UsageError(
            f"models: {origin.repository}/{origin.name} is not the file of the catalogue"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    fetched.replace(target)
