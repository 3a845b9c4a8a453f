"""Iceberg through Spark. All code that is specific to Iceberg is here; `tidegate.flows.publish` decides."""
