"""In the place of the driver, of its management library, of the enforcing library, and of PyTorch, where there is no GPU."""
