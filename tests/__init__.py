"""Tests of the webhook and of its certificates."""
