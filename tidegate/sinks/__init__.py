"""Sinks for the tables that batches are published to: one package for each table format."""
