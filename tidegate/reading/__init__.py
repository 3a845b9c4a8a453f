"""Uploads become Arrow batches: they are fetched, decompressed and decoded, and get lineage columns. No Spark."""
