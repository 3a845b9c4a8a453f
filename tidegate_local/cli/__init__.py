"""The verbs of this machine, plugged into the CLI of the product by the entry points in pyproject.toml."""

from tidegate.cli.plugins import require

require("local")
