"""The translation of all requests of one vendor into the keys of another, derived from their documents, for pages and tests.

Belongs here: what concerns all requests at once. Reviews do not use it.
"""
