"""A laboratory: whole conversations without sockets, processes or real time.

The server's own code (`Boards`, sessions, engine clients) runs against scripted engines in
process and simulated boards over memory streams, on whatever clock trio has: an autojump
`trio.testing.MockClock` makes minutes of speech a fraction of a second. Tests, the fault matrix
and the benches in virtual time are built on it.
"""
