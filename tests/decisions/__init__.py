"""Whole decisions: a pod goes in, and what is stored and reported is compared with what always holds."""
