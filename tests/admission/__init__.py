"""Tests of the steps that turn a pod into a decision."""
