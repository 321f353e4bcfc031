"""The notations in documents: amounts, sets of numbers, names with ``*``, regular expressions.

Belongs here: parsers from text to values that know no keys or vendors. Everything may import it.
"""
