"""The simulated world, held beside the real things: each body says what AWS does, and runs on each backend there is.

The model of Iceberg's commits is held against Iceberg in tests/spark, where a Spark is running.
"""
