"""The demo's own `tidegate.toml`, made from the project's."""

import re
from pathlib import Path

from tidegate.core.routes import Route
from tidegate.core.uploads import Upload
from tidegate.settings import SettingsError, load
from tidegate_local.demo import check, source
from tidegate_local.errors import LocalError

MAX_WAIT = "5s"
"""In place of the minute that suits a real deployment: a demo should not make anybody wait."""


def demo_config(text: str) -> str:
    """The text of a `tidegate.toml` for the demo: a shorter wait, and landing buckets without versions.

    With versions nothing is ever superseded or vanishes: an upload is read although it was overwritten or deleted.
    """
    text = re.sub(r"^(\s*max_wait\s*=\s*)\"[^\"]*\"", rf'\g<1>"{MAX_WAIT}"', text, flags=re.MULTILINE)
    text = re.sub(r"^\s*versioned\s*=.*\n", "", text, flags=re.MULTILINE)
    return re.sub(r"^\s*\[\[\s*route\s*\]\].*$", r"\g<0>\nversioned = false", text, flags=re.MULTILINE)


def write_config(config: Path, folder: Path) -> tuple[Path, Route]:
    """Write the demo's own `tidegate.toml`, made from the project's. The file, and the flights' route.

    Raises SettingsError, or LocalError if `folder` has been used before.
    """
    load(config)  # its mistakes are told by its own name
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise LocalError(f"the demo needs a fresh folder, and {folder} exists: give another --dir, or none") from None
    file = folder / "tidegate.toml"
    file.write_text(demo_config(config.read_text("utf-8")), "utf-8")
    route = next((each for each in load(file).core_routes() if takes_flights(each)), None)
    if route is None:
        raise SettingsError(
            f"{config}: no route takes gzipped JSON of flights with the columns that the demo uploads. Give --config"
            " the project's tidegate.example.toml, or none"
        )
    return file, route


def takes_flights(route: Route) -> bool:
    key = f"{route.prefix}2013/01/01/05/JFK{source.SUFFIX}"
    described = set(re.findall(r"(?:^|,)\s*(\w+)\s", route.dataset.schema))
    return (
        route.dataset.format == "json"
        and route.takes(Upload(route.bucket, key, "", 0))
        and described == {*check.COLUMNS}
    )
