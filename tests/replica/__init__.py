"""One replica, assembled."""
