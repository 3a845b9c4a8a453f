"""`tidegate.toml`: what it may say, and what is said of mistakes in it."""

from tidegate.settings.catalog import LakeCatalog
from tidegate.settings.model import Settings
from tidegate.settings.reading import DEFAULT_FILE, EXAMPLE_FILE, Checked, check, load, load_deployed, parse
from tidegate.settings.routes import BatchSettings, RouteSettings
from tidegate.settings.sections import (
    AnnounceSettings,
    AuditSettings,
    CatalogSettings,
    DeploymentSettings,
    LimitSettings,
    MaintainSettings,
    NetworkSettings,
    OperationsSettings,
    RetentionSettings,
    SecuritySettings,
)
from tidegate.settings.values import DAY, HOUR, MINUTE, duration
from tidegate.settings.words import Mistake, SettingsError

__all__ = [
    "DAY",
    "DEFAULT_FILE",
    "EXAMPLE_FILE",
    "HOUR",
    "MINUTE",
    "AnnounceSettings",
    "AuditSettings",
    "BatchSettings",
    "CatalogSettings",
    "Checked",
    "DeploymentSettings",
    "LakeCatalog",
    "LimitSettings",
    "MaintainSettings",
    "Mistake",
    "NetworkSettings",
    "OperationsSettings",
    "RetentionSettings",
    "RouteSettings",
    "SecuritySettings",
    "Settings",
    "SettingsError",
    "check",
    "duration",
    "load",
    "load_deployed",
    "parse",
]
