"""Adapters of engine libraries: imported in worker processes only (see `engines.adapter`)."""
