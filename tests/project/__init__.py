"""The project itself: its pages, its packages, its benchmarks, and the watchdogs of its tests."""
