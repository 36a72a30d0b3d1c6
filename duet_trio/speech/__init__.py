"""Pure speech logic: pieces, spoken text, endpointing, pacing, history. No I/O, no clock."""
