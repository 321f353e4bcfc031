"""Decisions and keys explained for people: the trace of a decision in words, what a key means, what to write instead."""
