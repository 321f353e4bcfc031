"""Manifest files: reading them, finding pods in them, and what the cluster would make of these.

Belongs here: what the commands have in common on their way in. Nothing here prints.
"""
