"""Verbs that decode files here: they need what a job needs, but for Spark itself."""

from tidegate.cli import plugins

plugins.require("spark")
