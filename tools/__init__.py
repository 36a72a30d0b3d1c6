"""Tools for working on the project: set-up and the gate. Not part of the installed package."""
