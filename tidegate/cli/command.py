"""How a person types the command line: for the commands that it prints."""

import os
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


def as_called() -> str:
    """The command line as it was typed, if that is a path from this folder (`.venv/bin/tidegate`): it is the shortest
    that runs here. Else `this_command`."""
    typed = sys.argv[0]
    from_here = os.sep in typed and not os.path.isabs(typed) and os.path.basename(typed) == "tidegate"
    return shlex.quote(typed) if from_here else this_command()
