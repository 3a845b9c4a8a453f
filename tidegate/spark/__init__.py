"""The PySpark step: read, stage, publish, fence. Runs on EMR Serverless and, unchanged, on a laptop."""
