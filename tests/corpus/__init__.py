"""Shapes of public manifests, and what becomes of each."""
