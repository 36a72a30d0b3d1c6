"""``duet boards``: which boards are known, and which may connect."""

from __future__ import annotations

import argparse
import difflib
import time
from collections.abc import Iterable
from pathlib import Path

from duet_trio.cli import add_config_options, read_config
from duet_trio.config import Config
from duet_trio.errors import UsageError
from duet_trio.server.approvals import Approvals
from duet_trio.server.board_facts import FactStore
from duet_trio.wire.handshake import clean_id, is_mac


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``boards``."""
    parser = subparsers.add_parser("boards", help="list boards, and say which may connect")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    one = actions.add_parser("list", help="all boards that have asked, and who is let in")
    add_config_options(one)
    one.set_defaults(func=_list)
    for name, text, func in (
        ("approve", "let a board in; it gets its token when it starts the next time", _approve),
        ("forget", "let a board in no longer; its token ends now", _forget),
    ):
        one = actions.add_parser(name, help=text)
        one.add_argument("device", metavar="MAC", help="its Device-Id, as `duet boards list` says")
        add_config_options(one)
        one.set_defaults(func=func)


def _folder(config: Config) -> Path:
    return Path(config.server.state_dir).expanduser()


def _list(args: argparse.Namespace) -> int:
    config: Config = read_config(args)
    approved = Approvals(_folder(config)).all()
    known = FactStore(_folder(config)).known()
    allowed = {one.lower() for one in (*config.auth.allow, *config.boards)}
    devices = sorted({*approved, *known, *allowed})
    if not devices:
        print("no board has asked yet; point one at the OTA URL that `duet serve` prints")
        return 0
    for device in devices:
        facts = known.get(device)
        if device in approved:
            state = "approved"
        elif device in allowed:
            state = "allowed by the configuration"
        else:
            state = "NOT let in" if config.auth.pairing else "let in (auth.pairing is off)"
        about = " ".join(filter(None, (facts.name, facts.chip, facts.firmware))) if facts else ""
        seen = _ago(facts.last_seen) if facts and facts.last_seen else "never seen"
        print(f"{device:<20} {state:<30} {seen:<16} {about}".rstrip())
    return 0


def _approve(args: argparse.Namespace) -> int:
    config: Config = read_config(args)
    device = _device(args)
    known = FactStore(_folder(config)).known()
    if device not in known and not is_mac(device):
        # A MAC may be approved before its board asks, and while no server runs; any other name is
        # a slip unless a client has asked by it.
        raise UsageError(
            f"{device}: no MAC (aa:bb:cc:dd:ee:ff), and nobody has asked by that name"
            f"{_meant(device, known)}; see `duet boards list`"
        )
    Approvals(_folder(config)).approve(device)
    print(f"{device} may connect; restart it, so that it asks for its token")
    if device not in known:
        print(f"it has not asked yet: is that really its Device-Id{_meant(device, known)}?")
    return 0


def _meant(device: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(device, known, n=1, cutoff=0.8)
    return f" (near: {near[0]}, which has asked)" if near else ""


def _forget(args: argparse.Namespace) -> int:
    config: Config = read_config(args)
    device = _device(args)
    if not Approvals(_folder(config)).forget(device):
        raise UsageError(f"{device} is not approved; see `duet boards list`")
    print(f"{device} may connect no longer; a connection that stands lasts until it closes")
    return 0


def _device(args: argparse.Namespace) -> str:
    device = clean_id(args.device)
    if not device:
        raise UsageError("MAC: empty; `duet boards list` shows the boards that have asked")
    return device


def _ago(at: float) -> str:
    seconds = max(0.0, time.time() - at)
    for size, name in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {name} ago"
    return "just now"
