"""Parsers of captured text, one tool or one tree a module. They raise nothing: what cannot be read is left out.

A field that a text does not have stays empty, None or absent, never 0: the rules must tell "none" from "not told".
"""
