"""The results of compiling documents: vendors with their keys, forms, guard and shim, and the policy of all of them.

The immutable values that reviews need, with their methods, belong here. The admission steps import them.
"""
