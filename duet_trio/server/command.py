"""``duet serve``."""

from __future__ import annotations

import argparse
import logging
import sys

from duet_trio.cli import add_config_options, read_config


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``serve``."""
    parser = subparsers.add_parser("serve", help="serve boards and the HTTP API")
    add_config_options(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="say more on stderr")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Serve until told to stop."""
    logging.basicConfig(
        level=logging.INFO if args.verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(message)s",
        stream=sys.stderr,
    )
    config = read_config(args)
    # A mistake in the configuration is told before the web framework is imported (0.4 s).
    import trio

    from duet_trio.server.accept import raise_descriptor_limit
    from duet_trio.server.running import serve

    raise_descriptor_limit()
    return trio.run(serve, config)
