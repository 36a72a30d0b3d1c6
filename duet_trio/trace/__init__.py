"""Traces: recorders that keep events, and the tools that read them again.

``recorder`` is what the running system uses. ``reader``, ``statistics``, ``summary``,
``plot``, ``follow``, ``replay`` and ``command`` work on the files afterwards; none of them
needs trio, an engine or a running server.
"""
