"""CloudFormation's own description of each type of resource."""

import importlib.util
from pathlib import Path


def packed_schemas() -> Path:
    """The folder in which cfn-lint carries them. cfn-lint is not imported: that takes seconds, in each worker."""
    found = importlib.util.find_spec("cfnlint")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "data" / "schemas"
