"""The world that the product runs in: AWS, Spark, Iceberg and people, simulated, on one virtual clock."""
