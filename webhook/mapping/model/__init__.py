"""The immutable values that reviews need: vendors with keys, forms, guard and shim, as documents have them, and the policy."""
