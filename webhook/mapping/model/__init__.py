"""Mapping documents, their schema and what is derived from them: vendors with keys, forms, guard and shim, and the policy.

The immutable values that reviews need, with their methods, belong here. The admission steps import them.
"""
