"""How values are written in text, in JSON and in CSV. Arrow's parsers take more than this (`formats.columns`)."""

import re

NUMBER_BYTES = {"int": b"0123456789-", "float": b"0123456789+-.eE"}
"""The characters of a number in text. Arrow's parsers check the rest; without this they take 0x10, inf, nan."""

DECIMAL = re.compile(r"-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")
DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"
ZONE = r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)"
