"""The columns of a table as a route states them: parsed and checked without Spark, and without Arrow."""
