"""HTTP around `decide`: sockets, TLS, limits, drain, metrics and logs; nothing here knows what a GPU is."""
