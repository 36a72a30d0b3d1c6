"""A full disk, a damaged file, a folder that somebody removes: said once, and nobody is cut off."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from duet_trio.server.approvals import Approvals
from duet_trio.server.board_facts import FactStore
from duet_trio.server.state_file import replace_file
from duet_trio.wire.ota import OtaRequest


def asked(number: int) -> OtaRequest:
    return OtaRequest(
        device_id=f"02:00:00:00:00:{number:02x}", client_id="", chip="", firmware="", board=""
    )


def fail_to_replace(_source: object, _target: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_disk_that_is_full_is_told_once_until_it_works_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = FactStore(tmp_path)
    store.saw(asked(1))
    store.flush()
    with monkeypatch.context() as full:
        full.setattr(os, "replace", fail_to_replace)
        for number in range(2, 50):
            store.saw(asked(number))
            store.flush()
    assert len(caplog.records) == 1
    assert "No space left" in caplog.text
    assert list(FactStore(tmp_path).known()) == ["02:00:00:00:00:01"]
    assert [path.name for path in tmp_path.iterdir()] == ["boards.json"]
    store.saw(asked(50))
    store.flush()
    assert len(FactStore(tmp_path).known()) == 50
    with monkeypatch.context() as full:
        full.setattr(os, "replace", fail_to_replace)
        store.saw(asked(51))
        store.flush()
    assert len(caplog.records) == 2


@pytest.mark.parametrize("damage", ["{", '{"a":{"b":' + "[" * 99_999], ids=["torn", "deep"])
def test_a_damaged_list_of_approvals_is_told_once_and_what_it_said_before_holds(
    damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    approvals = Approvals(tmp_path)
    approvals.approve("02:00:00:00:00:01")
    assert approvals.of("02:00:00:00:00:01")
    (tmp_path / "approved.json").write_text(damage)
    for _ in range(20):
        assert approvals.of("02:00:00:00:00:01")
    assert len(caplog.records) == 1


def test_a_folder_that_was_removed_is_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    store = FactStore(folder)
    store.saw(asked(1))
    store.flush()
    shutil.rmtree(folder)
    store.saw(asked(2))
    store.flush()
    assert len(FactStore(folder).known()) == 2


def test_the_mode_is_there_before_the_content(tmp_path: Path) -> None:
    replace_file(tmp_path / "secret", b"x", mode=0o600)
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
