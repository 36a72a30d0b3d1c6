"""Cloned voices: checking a reference, making a voice of it, keeping it (``duet voice``)."""
