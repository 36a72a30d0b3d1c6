"""Models: which files there are, where they lie, and how they are fetched.

Imports nothing of this project but ``errors``, so engine adapters may ask it for paths.
No code of a fetched package is ever imported, installed or run: only named data files are
taken out of archives whose hashes are pinned in `duet_trio.models.catalogue`.
"""
