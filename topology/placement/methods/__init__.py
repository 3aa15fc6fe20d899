"""Ways to make a rank-to-host map, one module each, behind one signature.

    order(problem: Problem) -> list[str]      # host of each rank

Adding one: a module here with that function, a line in `METHODS` of `topology.placement.place`.
"""
