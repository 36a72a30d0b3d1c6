"""duet-trio: spoken conversations for small voice boards, with no cloud.

A language model and a speech engine take turns on one GPU; every answer is one
nursery, so that a button press ends all of it.
"""

__version__ = "0.1.0"
