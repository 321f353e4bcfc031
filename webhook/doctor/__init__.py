"""The doctor: examines an installation from outside, and reports what works, what may not, and what does not.

`collect` reads (all I/O of the package), `facts` holds what was read, and checks are pure functions from facts to results.
What cannot be read is a fact, too: its check reports it, and the others continue.
"""
