"""Mapping and settings documents: YAML, `extends`, settings, and problems with their lines.

Code about the text of one document belongs here. It does not use compiled vendors.
"""
