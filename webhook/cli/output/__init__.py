"""What commands print: tables, wrapped text, YAML, pages of the documentation. Nothing here reads a file."""
