"""Tidegate: every file uploaded to S3 becomes rows of an Iceberg table exactly once."""
