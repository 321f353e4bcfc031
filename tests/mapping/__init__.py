"""Tests of `webhook.mapping`."""
