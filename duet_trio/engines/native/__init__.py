"""The native voice: Qwen3-TTS engines on GGML through one small C interface (``native/``).

Imported by worker processes only. The engine's library is named by path and loaded at run
time; nothing of it is imported by Python.
"""
