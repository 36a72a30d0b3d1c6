"""Engine libraries behind the adapter protocol of `duet_trio.engines.adapter`.

These modules run in worker processes only; each imports its library inside ``load``.
"""
