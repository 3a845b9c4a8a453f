"""The checker: the worlds and faults to try, the checks after each run, and the planted mistakes."""
