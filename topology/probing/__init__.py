"""Which path each source port takes, found by packets that die on the way: nothing of a switch's hash need be known."""
