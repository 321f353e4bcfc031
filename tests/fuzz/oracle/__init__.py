"""What the requests of a pod mean, read from the vendors' documentation and code: an opinion independent of the engine.

Nothing of ``webhook`` is imported here, not even its quantities: whoever shares a mistake cannot find it.
"""
