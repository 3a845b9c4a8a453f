"""The stack: one file for each part of the path."""
