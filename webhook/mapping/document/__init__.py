"""Mapping and settings documents as they are written: YAML, schema, `extends`, and what is wrong with one, with its line.

Belongs here: what can be said about one document's text. Nothing here knows a compiled vendor.
"""
