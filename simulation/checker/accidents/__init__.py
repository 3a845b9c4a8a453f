"""Worlds with a person or an accident, by subject, for the mistakes that the scenarios without one do not show."""
