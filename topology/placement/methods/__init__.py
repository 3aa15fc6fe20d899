"""Ways to make a rank-to-host map, one module each, behind one signature.

    order(problem: Problem) -> NDArray[np.int64]      # slot of each unit

Adding one: a module here with that function, a line in `METHODS` of `topology.placement.place`.
"""
