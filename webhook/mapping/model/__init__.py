"""The results of compiling documents: vendors with their keys, forms, guard and shim, and the policy of all of them.

Belongs here: the immutable values that reviews need, and what can be asked of them. The admission steps import this.
"""
