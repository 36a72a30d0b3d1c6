"""A simulated board: the client side of the protocol, with a real board's audio queue."""
