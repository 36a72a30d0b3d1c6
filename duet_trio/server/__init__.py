"""The server: sockets, boards, HTTP, start and stop."""
