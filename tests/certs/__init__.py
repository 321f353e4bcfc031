"""Tests of the package `certs`."""
