"""How jars are fetched: from a repository, by name and classifier, and only with the content that is pinned."""

import hashlib
from pathlib import Path

import pytest

from tidegate_local.toolchain import Jar, ToolMissing, fetched

PLAIN, TESTS = b"the plain jar", b"the jar with a classifier"


def jar(content: bytes, classifier: str = "") -> Jar:
    return Jar("org.example", "thing", "1.0", hashlib.sha256(content).hexdigest(), classifier)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository in a folder, with two jars of one module."""
    root = tmp_path / "repository"
    module = root / "org" / "example" / "thing" / "1.0"
    module.mkdir(parents=True)
    (module / "thing-1.0.jar").write_bytes(PLAIN)
    (module / "thing-1.0-tests.jar").write_bytes(TESTS)
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", f"{root.as_uri()}/")
    return root


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "jars"
    made.mkdir()
    return made


@pytest.mark.usefixtures("repository")
def test_jars_are_fetched_by_name_and_by_classifier(folder: Path) -> None:
    fetched([jar(PLAIN), jar(TESTS, "tests")], folder)

    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        "thing-1.0.jar": PLAIN,
        "thing-1.0-tests.jar": TESTS,
    }


@pytest.mark.usefixtures("repository")
def test_another_content_is_refused_and_not_kept(folder: Path) -> None:
    with pytest.raises(ToolMissing, match=r"thing-1\.0-tests\.jar has the sha256 .*, not .*mirror"):
        fetched([jar(PLAIN), jar(PLAIN, "tests")], folder)

    assert [path.name for path in folder.iterdir()] == ["thing-1.0.jar"]


@pytest.mark.usefixtures("repository")
def test_a_jar_that_is_not_there_is_named(folder: Path) -> None:
    with pytest.raises(ToolMissing, match=r"thing-1\.0-sources\.jar could not be fetched"):
        fetched([jar(PLAIN, "sources")], folder)


def test_a_jar_that_is_there_needs_no_network(folder: Path, repository: Path) -> None:
    first = fetched([jar(PLAIN)], folder)
    (repository / "org" / "example" / "thing" / "1.0" / "thing-1.0.jar").unlink()

    assert fetched([jar(PLAIN)], folder) == first
