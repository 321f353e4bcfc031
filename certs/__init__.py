"""Keys and certificates: making and storing them, and swapping a new pair into a live TLS context."""
