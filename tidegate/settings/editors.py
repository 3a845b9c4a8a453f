"""The JSON Schema of `tidegate.toml`, for editors that complete and check while one types."""

from typing import Any

from tidegate.settings.model import Settings


def schema_of_file() -> dict[str, Any]:
    """What one section says of another, and what a DDL may be, no JSON Schema can say: `tidegate check` does."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "tidegate.toml",
        **{name: value for name, value in Settings.model_json_schema(by_alias=True).items() if name != "title"},
    }
