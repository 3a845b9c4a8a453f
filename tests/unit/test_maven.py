"""How tests get their jars: from a repository, by name and classifier, and only with the content that is pinned."""

import hashlib
from pathlib import Path

import pytest

from tests.support import maven
from tests.support.maven import Jar, JarMissing

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
    maven.fetch([jar(PLAIN), jar(TESTS, "tests")], folder)

    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        "thing-1.0.jar": PLAIN,
        "thing-1.0-tests.jar": TESTS,
    }


@pytest.mark.usefixtures("repository")
def test_another_content_is_refused_and_nothing_is_kept(folder: Path) -> None:
    with pytest.raises(JarMissing, match=r"thing-1\.0-tests\.jar of org\.example has the sha256 .*, not .*mirror"):
        maven.fetch([jar(PLAIN), jar(PLAIN, "tests")], folder)

    assert list(folder.iterdir()) == []


@pytest.mark.usefixtures("repository")
def test_a_jar_that_is_not_there_is_named_with_the_command_that_fetches_it(folder: Path) -> None:
    with pytest.raises(JarMissing, match=r"thing-1\.0-sources\.jar.* run `.* -m tests\.support\.maven`"):
        maven.fetch([jar(PLAIN), jar(PLAIN, "sources")], folder)

    assert list(folder.iterdir()) == []
