"""Jars that only tests need, from Maven Central, each pinned by its digest.

They are kept in `share/tidegate/test-jars` of the virtual environment, and go with it.

    python -m tests.support.maven     fetches all of them, so that the first test need not
"""

from __future__ import annotations

import contextlib
import fcntl
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tidegate_local import toolchain
from tidegate_local.toolchain import Jar

AWS_BUNDLE = Jar(
    "org.apache.iceberg",
    "iceberg-aws-bundle",
    "1.11.0",
    "38f01da7e96850cdd05e6616d758b77b43314b712a8808e3f9a824d56976162f",
)

REST_CATALOG = (
    Jar(
        "org.apache.iceberg",
        "iceberg-api",
        "1.11.0",
        "f00675a12ceb6d833bb9c22024823a3e7afdedf7abcefe34719f45b0d211995a",
    ),
    Jar(
        "org.apache.iceberg",
        "iceberg-bundled-guava",
        "1.11.0",
        "396d48d93ef5735f2ddef0cf9b3d6968ebd67b64b5cfe753d41c429d3f46a2a1",
    ),
    Jar(
        "org.apache.iceberg",
        "iceberg-common",
        "1.11.0",
        "b2835d00db7c92bdfa728123ad7cdcb488e2f2805c1c51fb9ae94e8bd203bd7d",
    ),
    Jar(
        "org.apache.iceberg",
        "iceberg-core",
        "1.11.0",
        "53b9eb7a8c34fb9958ea7d9a4d19ba5bc96f592d0f05e8625b0778c70b1f0090",
    ),
    Jar(
        "org.apache.iceberg",
        "iceberg-core",
        "1.11.0",
        "4284719a5f0eb7db01e9f784a0ed4ca8bacf7d6f9951924143afc083428d8be3",
        "tests",
    ),
    Jar(
        "com.github.ben-manes.caffeine",
        "caffeine",
        "2.9.3",
        "1e0a7bbef1dd791653143f3f05d0e489934bf5481e58a87c9e619cd46b68729b",
    ),
    Jar(
        "jakarta.servlet",
        "jakarta.servlet-api",
        "6.0.0",
        "c034eb1afb158987dbb53a5fea0cadf611c8dae8daadd59c44d9d5ab70129cef",
    ),
    Jar(
        "org.apache.httpcomponents.core5",
        "httpcore5",
        "5.4.2",
        "7c34a25506e7207b6748cef9e91163ed03081bee805cef930d82e1d8761d62f1",
    ),
    Jar(
        "org.eclipse.jetty", "jetty-http", "12.1.14", "a898f3dad99c2505409047d849cac7f652eced5853f9dad711395a26cd681e13"
    ),
    Jar("org.eclipse.jetty", "jetty-io", "12.1.14", "9a41452f362f5bd96e017f16d6b66d19d2d60a5981eafd3729367c1d535eb5e9"),
    Jar(
        "org.eclipse.jetty",
        "jetty-security",
        "12.1.14",
        "62d4a246b978adee64d081025546466a05ee7b57b1dd6293d93953a80ba4cbe7",
    ),
    Jar(
        "org.eclipse.jetty",
        "jetty-server",
        "12.1.14",
        "62a2c691ecb3b60178e7b1a64d498261d31bcef76dd19147b89dcb2c6f784f30",
    ),
    Jar(
        "org.eclipse.jetty",
        "jetty-session",
        "12.1.14",
        "5b091e6132ba30a56ce872e07cdc0de263163e46f88d5dea99310d3a6d00899a",
    ),
    Jar(
        "org.eclipse.jetty", "jetty-util", "12.1.14", "deb2a47bb9659c69076da1020d058c0ededba61dcd1aebccf83fce4719164adc"
    ),
    Jar(
        "org.eclipse.jetty.ee10",
        "jetty-ee10-servlet",
        "12.1.14",
        "cfea6fa831b8bf119ab97a73271fb61194a678c9ffca0661aaecefde53368eda",
    ),
)
"""Iceberg's own REST catalog, unshaded, and the server it runs in. The rest of what it needs Spark has."""


def fetched(jars: Sequence[Jar]) -> list[Path]:
    """The paths of the jars, those that are missing fetched. Raises ToolMissing."""
    folder = Path(sys.prefix, "share", "tidegate", "test-jars")
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder.with_suffix(".lock")):
        return toolchain.fetched(jars, folder)


@contextlib.contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """One process at a time: the workers of pytest-xdist all come here at once."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    try:
        print(*fetched([AWS_BUNDLE, *REST_CATALOG]), sep="\n")
    except toolchain.ToolMissing as missing:
        sys.exit(str(missing))
