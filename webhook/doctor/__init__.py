"""The doctor: examines an installation from outside, and reports what works, what may not, and what does not.

A check asks a `reading.ClusterReader` for what it needs. What cannot be read ends that check, which says so; others continue.
"""
