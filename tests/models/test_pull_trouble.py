"""Pulling from a hub when something is in the way: kills, rivals, slow lines, proxies, refusals."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import namedtuple
from pathlib import Path

import pytest
from huggingface_hub import close_session

from duet_trio.errors import UsageError
from duet_trio.models import download, hub
from duet_trio.models import pull as pull_module
from duet_trio.models.pull import Pulled
from tests.models.toy_shop import BIG, SMALL, Shop, sha256, shop

__all__ = ["shop"]  # a fixture
Usage = namedtuple("Usage", "total used free")


def storage_asked(shop: Shop) -> list[str]:
    """The ranges that were asked of the storage."""
    return [span for path, span in shop.hub.got() if path.startswith("/storage/")]


def test_two_pulls_at_once_the_second_is_told_and_harms_nothing(shop: Shop) -> None:
    shop.hub.stall_after, shop.hub.stalls = 2_000_000, 1
    first: list[Pulled] = []
    thread = threading.Thread(target=lambda: first.append(shop.pull()))
    thread.start()
    assert shop.hub.stalled.wait(20)
    with pytest.raises(UsageError, match=r"another pull is at work in .*toy; let it finish"):
        shop.pull()
    shop.hub.go_on.set()
    thread.join()
    assert first == [Pulled(fetched=2, kept=0)]
    assert (shop.folder / "llm/big.gguf").read_bytes() == BIG
    assert shop.pull() == Pulled(fetched=0, kept=2)


def test_what_another_pull_brought_meanwhile_is_not_fetched_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = pull_module.states(shop.set, shop.folder)
    shop.pull()
    shop.hub.asked.clear()
    monkeypatch.setattr(pull_module, "states", lambda *_: before)
    assert shop.pull() == Pulled(fetched=0, kept=2)
    assert shop.hub.asked == []


def test_a_killed_pull_is_resumed_where_it_was(shop: Shop) -> None:
    shop.hub.stall_after, shop.hub.stalls = 3_000_000, 1
    code = (
        "import sys; from pathlib import Path; from duet_trio.models.pull import pull\n"
        "from duet_trio.models.model_set import HubFile, ModelFile, ModelSet\n"
        f"file = ModelFile('llm/big.gguf', {len(BIG)}, '', HubFile('some/one', 'main', 'big.gguf'))"
        "\nreport = lambda label, done, total: print(done, flush=True)\n"
        "pull(ModelSet('toy', '', (), (file,)), Path(sys.argv[1]), report)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, shop.folder], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) >= 2_900_000:
            break
    process.kill()
    process.stdout.close()
    process.wait()
    shop.hub.go_on.set()
    shop.hub.asked.clear()
    assert shop.pull() == Pulled(fetched=2, kept=0)
    (span,) = storage_asked(shop)
    assert int(span.removeprefix("bytes=").rstrip("-")) >= 2_800_000
    assert (shop.folder / "llm/big.gguf").read_bytes() == BIG
    assert shop.files() == ["llm/big.gguf", "models-lock.json", "tts/small.json"]


def test_a_line_that_hangs_keeps_what_came_however_little(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "_TIMEOUT_S", 0.2)
    shop.hub.stall_after, shop.hub.stalls = 300_000, 3  # less than a block
    assert shop.pull() == Pulled(fetched=2, kept=0)
    assert storage_asked(shop) == ["", "bytes=300000-", "bytes=600000-", "bytes=900000-"]


def test_a_server_without_ranges_that_always_breaks_is_given_up(shop: Shop) -> None:
    shop.hub.ranges, shop.hub.cut_after, shop.hub.cuts = False, 2_000_000, 1000
    with pytest.raises(UsageError, match="pull again"):
        shop.pull()
    assert len(storage_asked(shop)) < 10


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_hub_is_asked_again(shop: Shop, status: int) -> None:
    shop.hub.refuse, shop.hub.refusals = status, 2
    assert shop.pull() == Pulled(fetched=2, kept=0)


def test_a_busy_hub_is_not_asked_for_ever(shop: Shop) -> None:
    shop.hub.refuse = 429
    with pytest.raises(UsageError, match=r"hub answers 429 \(too many requests\); wait some min"):
        shop.pull()
    assert len(shop.hub.asked) == 4
    shop.hub.asked.clear()
    shop.hub.retry_after = "3600"
    with pytest.raises(UsageError, match="too many requests"):
        shop.pull()
    assert len(shop.hub.asked) == 1, "nobody waits an hour without being told"


@pytest.mark.parametrize(
    ("status", "header", "wait_s"),
    [
        (429, None, 0.25),
        (429, "7", 7.0),
        (503, "Wed, 21 Oct 2026 07:28:00 GMT", 0.25),
        (500, "-5", 0.25),
        (429, "61", None),
        (404, "1", None),
        (200, None, None),
    ],
)
def test_how_long_to_wait(
    monkeypatch: pytest.MonkeyPatch, status: int, header: str | None, wait_s: float | None
) -> None:
    monkeypatch.setattr(hub, "BETWEEN_TRIES_S", 0.25)
    assert hub.wait_before_retry_s(status, header) == wait_s


def test_a_storage_that_is_busy_for_a_moment(shop: Shop) -> None:
    shop.hub.storage_refuse = [503, 429]
    assert shop.pull() == Pulled(fetched=2, kept=0)


def test_an_address_that_expired_is_asked_for_anew(shop: Shop) -> None:
    shop.hub.cut_after, shop.hub.cuts = 2_000_000, 1

    expires = [403]

    def report(label: str, done: int, total: int) -> None:
        if done >= 1_000_000 and expires:
            shop.hub.storage_refuse.append(expires.pop())

    pull_module.pull(shop.set, shop.folder, report)
    assert (shop.folder / "llm/big.gguf").read_bytes() == BIG
    assert storage_asked(shop) == ["", "bytes=2000000-", "bytes=2000000-"]


def test_a_storage_that_never_lets_us_is_one_line(shop: Shop) -> None:
    shop.hub.storage_refuse = [403] * 10
    with pytest.raises(UsageError, match=r"big\.gguf cannot be fetched: the hub answers 403"):
        shop.pull()
    assert len(storage_asked(shop)) == 2


def test_a_file_that_changes_while_it_comes_is_not_mixed(shop: Shop) -> None:
    shop.hub.storage_refuse = [403]

    def report(label: str, done: int, total: int) -> None:
        shop.hub.files["some/one/big.gguf"] = BIG[::-1]

    with pytest.raises(UsageError, match=r"big\.gguf changed meanwhile; pull again"):
        pull_module.pull(shop.set, shop.folder, report)


def test_a_token_does_not_follow_to_another_host(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    shop.hub.moved = True
    shop.pull()
    assert (shop.folder / "tts/small.json").read_bytes() == SMALL
    assert ("127.0.0.1", "Bearer hf_secret") in shop.hub.auth
    assert {auth for host, auth in shop.hub.auth if host == "localhost"} == {""}


def test_all_of_it_goes_by_way_of_a_proxy(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.invalid")
    monkeypatch.setenv("http_proxy", shop.hub.url)
    shop.hub.storage = "http://storage.invalid"
    close_session()  # its client reads the environment when it is made
    try:
        assert shop.pull() == Pulled(fetched=2, kept=0)
        assert {host for host, _ in shop.hub.auth} == {"hub.invalid", "storage.invalid"}
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        close_session()
        (shop.folder / "llm/big.gguf").unlink()
        with pytest.raises(UsageError, match=r"not reachable by way of the proxy in http_proxy"):
            shop.pull()
    finally:
        close_session()


def test_offline_mode_is_one_line(shop: Shop) -> None:
    """That variable is read when the library is loaded, so in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "duet_trio", "models", "pull", "laptop-8gb",
         "--to", str(shop.folder.parent)],
        env={**os.environ, "HF_HUB_OFFLINE": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "offline" in line.lower()


def test_a_folder_that_is_a_file(shop: Shop, tmp_path: Path) -> None:
    shop.folder.parent.mkdir(parents=True)
    shop.folder.write_text("in the way")
    with pytest.raises(UsageError, match="choose another with --to"):
        shop.pull()
    assert sha256(shop.folder.read_bytes()) == sha256(b"in the way")


def test_a_folder_in_the_place_of_a_file_is_damage(shop: Shop) -> None:
    shop.pull()
    (shop.folder / "llm/big.gguf").unlink()
    (shop.folder / "llm/big.gguf").mkdir()
    assert [state for _, state in pull_module.states(shop.set, shop.folder)] == ["damaged", "there"]
    with pytest.raises(UsageError, match=r"cannot write to .*directory"):
        shop.pull()


def test_a_storage_that_is_always_busy_is_given_up(shop: Shop) -> None:
    shop.hub.storage_refuse = [503] * 50
    with pytest.raises(UsageError, match="the hub answers 503; pull again later"):
        shop.pull()
    assert len(storage_asked(shop)) == 6


def test_what_has_come_needs_no_room_again(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    downloads = shop.folder / ".downloads"
    downloads.mkdir(parents=True)
    (downloads / f"{sha256(BIG)}.partial").write_bytes(BIG[:-1_000_000])
    (downloads / "of-another-version.partial").write_bytes(b"left")
    for free, enough in ((900_000, False), (1_100_000, True)):
        usage = Usage(1 << 40, 0, (64 << 20) + free)
        monkeypatch.setattr("duet_trio.models.pull.shutil.disk_usage", lambda _, u=usage: u)
        if enough:
            assert shop.pull() == Pulled(fetched=2, kept=0)
        else:
            with pytest.raises(UsageError, match="MB needed"):
                shop.pull()
    assert storage_asked(shop) == [f"bytes={len(BIG) - 1_000_000}-"]
    assert not downloads.exists(), "nothing is left of it, nor of other versions"


def test_more_bytes_than_promised_are_refused(shop: Shop) -> None:
    shop.hub.promised_size = len(BIG) - 1000
    with pytest.raises(UsageError, match=r"big\.gguf came damaged or is another file"):
        shop.pull()
    assert shop.files() == []
