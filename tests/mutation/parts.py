"""What is changed, and which tests look: the fast ones only, each function by those that call it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Part:
    """Modules whose mutants the same tests look at. `tests` are what pytest is asked to run."""

    name: str
    modules: tuple[str, ...]
    tests: tuple[str, ...]


def _all(folder: str, *, but: tuple[str, ...] = ()) -> tuple[str, ...]:
    found = (path.relative_to(ROOT).as_posix() for path in sorted((ROOT / folder).glob("*.py")))
    return tuple(path for path in found if path not in but and not path.endswith("__init__.py"))


REBUILDING = ("tidegate/flows/rebuild.py", "tidegate/flows/from_rows.py")

PARTS: Sequence[Part] = (
    Part(
        "path",
        (
            *_all("tidegate/core"),
            *_all("tidegate/core/transitions"),
            *_all("tidegate/flows", but=REBUILDING),
            *_all("tidegate/stores"),
        ),
        (
            "tests/unit/test_batches.py",
            "tests/unit/test_claims.py",
            "tests/unit/test_manifests.py",
            "tests/unit/test_notices.py",
            "tests/unit/test_notifications.py",
            "tests/unit/test_outcomes.py",
            "tests/unit/test_publication.py",
            "tests/unit/test_receipts.py",
            "tests/unit/test_routes.py",
            "tests/unit/test_uploads.py",
            "tests/unit/test_wire.py",
            "tests/contract/test_afterwards.py",
            "tests/contract/test_attempts.py",
            "tests/contract/test_claiming.py",
            "tests/contract/test_ending.py",
            "tests/contract/test_given_up.py",
            "tests/contract/test_ledger_faults.py",
            "tests/contract/test_registering.py",
            "tests/contract/test_index.py",
            "tests/contract/test_store.py",
            "tests/functional/test_decide.py",
            "tests/functional/test_dispatch.py",
            "tests/functional/test_hand_off.py",
            "tests/functional/test_intake.py",
            "tests/functional/test_publish.py",
            "tests/functional/test_damaged_ledger.py",
            "tests/functional/test_routes_change.py",
            "tests/functional/test_seal.py",
            "tests/functional/test_settle.py",
            "tests/functional/test_status.py",
            "tests/functional/test_trace.py",
        ),
    ),
    # its tests take longer than all others together
    Part(
        "rebuild",
        REBUILDING,
        ("tests/functional/test_rebuild.py", "tests/functional/test_rebuilt_sums.py", "tests/unit/test_guarded.py"),
    ),
)
