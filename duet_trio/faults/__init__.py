"""Injected faults: a plan, and the seams at which it acts."""
