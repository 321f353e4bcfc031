"""The playground: its answers, its pages, and the page in a browser."""
