"""Keys and certificates: making them, keeping them, and handing a new pair to a live TLS context."""
