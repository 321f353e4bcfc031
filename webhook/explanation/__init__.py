"""Decisions and keys explained for people: the steps of a decision, the meaning of a key, and what to write instead."""
