"""Reading manifest files, finding pods in them, simulating what the cluster would store, and checking it.

Code that several commands need for their input belongs here. Nothing here prints.
"""
