"""`tidegate.toml` is read and checked. Every mistake is reported at once, with its place and what is allowed there."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from tidegate.settings.model import Settings
from tidegate.settings.words import Mistake, SettingsError, in_text

DEFAULT_FILE = Path("tidegate.toml")
EXAMPLE_FILE = Path("tidegate.example.toml")
"""In a checkout. `make setup` copies it to `DEFAULT_FILE`, which is its owner's from then on, and ignored by git."""


@dataclass(frozen=True, slots=True)
class Checked:
    """`settings` if the file can be used; then all of `mistakes` are warnings. They are in the order of the file."""

    settings: Settings | None
    mistakes: tuple[Mistake, ...]


def load(path: Path, warn: Callable[[str], None] | None = None) -> Settings:
    """The settings in `path`. Raises SettingsError. What is usable, and probably not meant, is told to `warn`."""
    source = read(path)
    checked = check(source)
    if warn is not None and checked.settings is not None and checked.mistakes:
        warn(in_text(checked.mistakes, str(path), source))
    return _usable(checked, str(path), source)


def load_deployed(path: Path) -> Settings:
    """As `load`, of a file that was checked when it was deployed: schemas are not looked at again. A function imports a
    third less for it, at each cold start."""
    try:
        return Settings.model_validate(tomllib.loads(read(path)))
    except (ValueError, RecursionError):
        return load(path)  # it says what is wrong


def read(path: Path) -> str:
    """The text of the file, its lines ending as Python has them. Raises SettingsError."""
    try:
        # some editors write a mark in front
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise SettingsError(
            f"there is no {path}: name the file with --config, or write one (`tidegate init` makes one of samples)"
        ) from error
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read ({error.strerror}); give --config or write one") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: is not UTF-8 text ({error})") from error


def parse(source: str, file: str = "tidegate.toml") -> Settings:
    """The settings in TOML text; `file` is its name in errors. Raises SettingsError."""
    return _usable(check(source), file, source)


def _usable(checked: Checked, file: str, source: str) -> Settings:
    if checked.settings is None:
        raise SettingsError(in_text(checked.mistakes, file, source), checked.mistakes)
    return checked.settings


def check(source: str) -> Checked:
    """Everything that is wrong with TOML text, and the settings in it if it can be used."""
    # only who writes the file needs these, and no function that reads it
    from tidegate.settings import toml
    from tidegate.settings.mistakes import explained
    from tidegate.settings.positions import positions
    from tidegate.settings.tables import mistakes_of

    source = source.replace("\r\n", "\n")
    try:
        data = tomllib.loads(source)
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits is a ValueError, too
        return Checked(None, (toml.refused(source, error),))
    where = positions(source)
    mistakes = list(mistakes_of(data, where))
    settings = None
    try:
        settings = Settings.model_validate(data)
    except ValidationError as error:
        mistakes += [explained(problem, Settings, where) for problem in error.errors()]
    if any(not each.warning for each in mistakes):
        settings = None
    mistakes.sort(key=lambda each: (each.place.line, each.place.column) if each.place else (0, 0))
    return Checked(settings, tuple(mistakes))
