"""Faults on purpose: a plan names them, wrappers around engines and sockets commit them.

``plan`` is the file format, ``hub`` decides what happens where, ``engines`` and ``socket`` are the
wrappers. Nothing here is imported by a session: faults are put around what it is given.
"""
