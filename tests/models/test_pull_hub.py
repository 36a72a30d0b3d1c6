"""Pulling from a hub: a stand-in on loopback, asked by the real huggingface_hub."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from duet_trio.errors import UsageError
from duet_trio.models import hub as hub_module
from duet_trio.models.lock import LOCK_FILE
from duet_trio.models.model_set import HubFile
from duet_trio.models.pull import Pulled, pull, states
from tests.models.hub_standin import COMMIT, etag_of
from tests.models.toy_shop import BIG, SMALL, Shop, sha256, shop

Usage = namedtuple("Usage", "total used free")
__all__ = ["shop"]  # a fixture


def test_files_are_fetched_checked_and_written_down(shop: Shop) -> None:
    assert shop.pull() == Pulled(fetched=2, kept=0)
    assert shop.files() == ["llm/big.gguf", LOCK_FILE, "tts/small.json"]
    assert (shop.folder / "llm/big.gguf").read_bytes() == BIG
    lock = shop.lock()
    assert lock["llm/big.gguf"] == {
        "repository": "some/one",
        "name": "big.gguf",
        "commit": COMMIT,
        "size": len(BIG),
        "sha256": sha256(BIG),
        "hub_hash": sha256(BIG),
    }
    assert lock["tts/small.json"]["hub_hash"] == etag_of(SMALL, large=False)
    assert lock["tts/small.json"]["sha256"] == sha256(SMALL)


def test_a_second_pull_asks_nobody(shop: Shop) -> None:
    shop.pull()
    shop.hub.asked.clear()
    assert shop.pull() == Pulled(fetched=0, kept=2)
    assert shop.hub.asked == []


def test_a_broken_connection_goes_on_where_it_broke(shop: Shop) -> None:
    shop.hub.cut_after, shop.hub.cuts = 2_000_000, 2
    assert shop.pull() == Pulled(fetched=2, kept=0)
    spans = [span for path, span in shop.hub.got() if path.startswith("/storage/")]
    assert spans == ["", "bytes=2000000-", "bytes=4000000-"]
    assert (shop.folder / "llm/big.gguf").read_bytes() == BIG


def test_an_interrupted_pull_is_resumed_by_the_next_process(shop: Shop) -> None:
    seen = 0

    def interrupt(label: str, done: int, total: int) -> None:
        nonlocal seen
        seen = done if label == "llm/big.gguf" else seen
        if seen > 3_000_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull(shop.set, shop.folder, interrupt)
    assert not (shop.folder / "llm/big.gguf").exists()
    shop.hub.asked.clear()
    assert shop.pull() == Pulled(fetched=2, kept=0)
    ((_, span),) = [got for got in shop.hub.got() if got[0].startswith("/storage/")]
    assert int(span.removeprefix("bytes=").rstrip("-")) >= 3_000_000
    assert (shop.folder / "llm/big.gguf").read_bytes() == BIG


def test_a_storage_without_ranges_is_fetched_from_the_beginning(shop: Shop) -> None:
    shop.hub.ranges, shop.hub.cut_after, shop.hub.cuts = False, 2_000_000, 1
    shop.pull()
    assert (shop.folder / "llm/big.gguf").read_bytes() == BIG


def test_what_never_comes_whole_is_given_up_in_one_line(shop: Shop) -> None:
    shop.hub.cut_after, shop.hub.cuts, shop.hub.ranges = 1, 1000, False
    with pytest.raises(
        UsageError, match=r"some/one/big\.gguf .*not reachable.*pull again"
    ) as error:
        shop.pull()
    assert "\n" not in str(error.value)


def test_other_bytes_than_promised_are_refused_and_not_kept(shop: Shop) -> None:
    shop.hub.corrupt = True
    with pytest.raises(UsageError, match=r"big\.gguf came damaged or is another file"):
        shop.pull()
    assert shop.files() == []
    shop.hub.corrupt = False
    assert shop.pull() == Pulled(fetched=2, kept=0)


def test_another_file_than_the_pinned_one_is_refused(shop: Shop) -> None:
    shop.hub.files["some/one/small.json"] = b'{"rate": 22050.0}'
    with pytest.raises(UsageError, match=r"small\.json is another file than the one"):
        shop.pull()
    assert shop.hub.got() == [], "told before anything is fetched"
    # Of the right size, and the hub's own hash is git's: known when it has come.
    shop.hub.files["some/one/small.json"] = b'{"rate": 22000}'
    with pytest.raises(UsageError, match=r"small\.json came damaged or is another file"):
        shop.pull()


def test_the_lock_counts_from_then_on(shop: Shop) -> None:
    shop.pull()
    path = shop.folder / "llm/big.gguf"
    path.write_bytes(BIG[::-1])
    assert [state for _, state in states(shop.set, shop.folder)] == ["damaged", "there"]
    shop.hub.asked.clear()
    assert shop.pull() == Pulled(fetched=1, kept=1)
    # The commit that was locked, whatever "main" is now.
    assert all(f"/resolve/{COMMIT}/" in path for _, path, _ in shop.hub.asked[:1])
    assert path.read_bytes() == BIG
    (shop.folder / LOCK_FILE).write_text("{")
    with pytest.raises(UsageError, match=r"is damaged .*delete it and pull again"):
        shop.pull()


def test_a_file_put_there_by_hand_is_checked_and_kept(shop: Shop) -> None:
    path = shop.folder / "llm/big.gguf"
    path.parent.mkdir(parents=True)
    path.write_bytes(BIG)
    assert [state for _, state in states(shop.set, shop.folder)] == ["unchecked", "missing"]
    assert shop.pull() == Pulled(fetched=1, kept=1)
    assert not any(got[0].startswith("/storage/") for got in shop.hub.got())
    assert [state for _, state in states(shop.set, shop.folder)] == ["there", "there"]


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (404, "EntryNotFound", "the hub has no some/one/big.gguf at 'main'"),
        (404, "RepoNotFound", "the hub has no some/one/big.gguf at 'main'"),
        (401, "", "does not show some/one/big.gguf .answer 401."),
        (403, "GatedRepo", "some/one wants its licence accepted.*HF_TOKEN"),
        (500, "", "the hub answers 500"),
    ],
)
def test_what_the_hub_refuses_is_one_line(shop: Shop, status: int, code: str, words: str) -> None:
    shop.hub.refuse, shop.hub.refuse_code = status, code
    with pytest.raises(UsageError, match=words) as error:
        shop.pull()
    assert "\n" not in str(error.value)


def test_something_else_behind_the_address(shop: Shop) -> None:
    shop.hub.commit = ""
    with pytest.raises(UsageError, match="no hash, commit, size or address"):
        shop.pull()


def test_an_address_that_is_no_servers_is_refused(shop: Shop) -> None:
    shop.hub.storage = "file:///etc"
    with pytest.raises(UsageError, match="no hash, commit, size or address"):
        shop.pull()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_offline_is_one_line(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(
        UsageError, match=r"hub is not reachable .*; connect and pull again"
    ) as error:
        shop.pull()
    assert "\n" not in str(error.value)


def test_the_disk_is_looked_at_before_anything_is_fetched(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "duet_trio.models.pull.shutil.disk_usage", lambda path: Usage(1 << 30, 0, 50 << 20)
    )
    with pytest.raises(UsageError, match=r"68 MB needed in .*, 50 MB free"):
        shop.pull()
    assert shop.hub.got() == []


def test_a_token_goes_to_the_hub_and_not_to_its_storage(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    large, small = (file.origin for file in shop.set.files)
    assert isinstance(large, HubFile)
    assert isinstance(small, HubFile)
    assert hub_module.ask_hub(large).headers == {}
    assert hub_module.ask_hub(small).headers == {"Authorization": "Bearer hf_secret"}


def test_the_command_with_a_hub_that_is_not_there(tmp_path: Path) -> None:
    """The whole catalogue entry, as a person would call it: one line, exit code 2, no file."""
    environment = {
        **os.environ,
        "HF_ENDPOINT": f"http://127.0.0.1:{free_port()}",
        "HF_HOME": str(tmp_path / "hf"),
        "NO_PROXY": "127.0.0.1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "duet_trio", "models", "pull", "laptop-8gb", "--to", tmp_path / "m"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "gemma-4-E4B_q4_0-it.gguf cannot be fetched: the hub is not reachable" in line
    assert list((tmp_path / "m").rglob("*.gguf")) == []
