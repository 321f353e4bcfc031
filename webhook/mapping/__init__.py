"""Vendor documents: their schema, loading and compiling into an immutable policy; reading and writing a request in keys."""
