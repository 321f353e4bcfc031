"""Fuzzing: generated pods, namespaces and policies, held against the properties and an independent oracle."""
