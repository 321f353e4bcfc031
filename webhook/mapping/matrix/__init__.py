"""The translation of all requests of one vendor into the keys of another, derived from their documents, for pages and tests.

Code about all requests at once belongs here. Reviews do not use it.
"""
