"""Data files that the tasks write themselves, and not Spark: which tables get them, and how they come into a table."""
