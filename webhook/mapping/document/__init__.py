"""Mapping and settings documents: YAML, schema, `extends`, and problems with their lines.

Belongs here: what concerns the text of one document. Nothing here uses a compiled vendor.
"""
