"""The doctor: what its checks say of facts, and how facts are read."""
