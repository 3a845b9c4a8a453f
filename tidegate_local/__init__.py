"""The same stack, on this machine."""
