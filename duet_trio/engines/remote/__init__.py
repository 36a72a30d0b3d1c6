"""Engines elsewhere: the three contracts over any server with the OpenAI-compatible HTTP API.

They live in the main process, on trio: nothing here computes, and a call that hangs is ended by
closing its own connection. In a worker process one passed deadline would end every other answer's
call with it.
"""
