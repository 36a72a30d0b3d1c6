"""One board's connection: reader, writer, listener, conversation and its answers."""
