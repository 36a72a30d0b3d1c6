"""Measurements that anybody can repeat: each prints what it measured, on which machine, and how.

A machine's speed drifts, so wherever a time would be noise the figure is a pair measured
alternately in one run (our abort beside a do-nothing echo, turns beside overlap).
"""
