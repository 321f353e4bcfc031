"""The doctor: looks at an installation from outside and says what is in order, what may not be, and what is not.

`look` reads (all I/O of the package), `facts` holds what was read, and the checks are pure functions from facts to a result.
What could not be read is a fact too: its check says so, and the others go on.
"""
