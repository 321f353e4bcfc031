"""Tests of `webhook.cli`."""
