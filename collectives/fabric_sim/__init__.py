"""A packet-level simulator of RoCE fabrics: PFC, ECN, congestion control, retransmission; picoseconds, one seed one result.

`network` and `flows` describe what is simulated, `simulate` runs it, `simbase` reads CSV files. The core is C++ (`core/`).
"""
