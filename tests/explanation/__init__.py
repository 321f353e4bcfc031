"""What is explained about pods."""
