"""Recording events, and the figures, plots and replays made from recordings."""
