"""Decisions and keys told for people: the same steps as a review, over the same inputs, with everything between."""
