"""The board protocol, sans-IO: messages, framing, the board's state, the OTA answer."""
