"""Explains decisions (`pods`) and keys (`names`) for people, and finds what to write instead (`correction`)."""
