"""Tests on a real node: the product's image, and what becomes of pods in containers."""
