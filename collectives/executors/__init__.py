"""Executors: any `Schedule` carried out by real ranks, over any transport that can send and receive.

`program` cuts a schedule into what one rank sends and receives and in which order that must be; `engine` runs that over
a `Transport`. Adding a transport: a class with the methods of `transport.Transport`, one entry in
`transport.TRANSPORTS`; the contract test runs every registered schedule of every operation over it.
"""

from __future__ import annotations
