"""Shares on a real GPU: what golden cases promise, and what programs then see; `tests/gpu/run` needs no cluster."""
