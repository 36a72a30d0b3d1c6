"""Engines: their contracts, the worker processes they live in, and the turn on the GPU."""
