"""What documents are compiled into: vendors with their keys, forms, guard and shim, and the policy of them all. Immutable.

Belongs here: values that reviews look at, and the questions that they answer. The admission steps import this.
"""
