"""Reading manifest files, finding pods in them, and simulating what the cluster would store.

Code that several commands need for their input belongs here. Nothing here prints.
"""
