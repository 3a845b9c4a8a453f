"""The comparison of Tidegate with the schemes that people use, under the same schedules, and its pages and tables."""
