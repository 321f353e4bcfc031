"""The small languages that documents are written in: amounts, sets of numbers, names with ``*``, regular expressions.

Belongs here: text to value, without knowledge of keys or vendors. Anything may import it.
"""
