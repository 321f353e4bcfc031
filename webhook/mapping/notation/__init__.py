"""The notations in documents: amounts, sets of numbers, names with ``*``, regular expressions.

Parsers from text to values, which know no keys or vendors, belong here. Everything may import it.
"""
