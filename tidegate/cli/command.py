"""How a person types the command line: for the commands that it prints."""

import shlex
import shutil
import sys
from pathlib import Path


def this_command() -> str:
    """`tidegate` if a shell would find this one by that name. Else its full path, quoted for a shell, so that a printed
    command runs as it stands, from any folder."""
    script = Path(sys.executable).with_name("tidegate")
    if not script.exists():
        return f"{shlex.quote(sys.executable)} -m tidegate.cli.main"
    found = shutil.which("tidegate")
    return "tidegate" if found and Path(found).samefile(script) else shlex.quote(str(script))
