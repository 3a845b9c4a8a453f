"""Docker, SAM and the image that functions run in. Whatever is missing is `Unable`, with what and why; nothing is
installed on the machine.

    python -m tests.support.containers      makes the image where no registry of images can be reached, and says where

SAM's own image is taken if Docker has it or can pull it. Else an image like it is made of what Debian and PyPI serve: a
minimal Debian with the Python of the functions, and Lambda's runtime client. SAM adds its emulator to either.
"""

import contextlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psutil

from infra.bundling import AMAZON_LINUX, PYTHON
from tests.support.patience import HANGING
from tests.support.rie import RUNTIME_CLIENT

ROOT = Path(__file__).parents[2]
DEBIAN = "trixie"
"""The release whose Python is that of the functions, 3.13."""
OWN_IMAGE = f"tidegate-test/lambda-python:{PYTHON}"
BOOTSTRAP = f"""#!/bin/sh
export PYTHONPATH=/var/task:/var/runtime
exec /usr/bin/python{PYTHON} -m awslambdaric "$_HANDLER"
"""


class Unable(Exception):
    """What is not on this machine, and what was tried."""


def found(name: str, *places: Path) -> str:
    """The path of a program. Raises Unable."""
    path = shutil.which(name) or next((str(place) for place in places if place.exists()), None)
    if path is None:
        raise Unable(f"`{name}` is not installed")
    return path


def sam() -> str:
    """Raises Unable."""
    return found("sam", ROOT / ".venv" / "sam" / "bin" / "sam")


def run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """What a command prints. Raises Unable with its last words."""
    try:
        done = subprocess.run(
            command, env={**os.environ, **(environment or {})}, capture_output=True, text=True, timeout=HANGING
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unable(f"`{' '.join(command)}` failed: {error}") from error
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise Unable(f"`{' '.join(command)}` failed: {''.join(last)}")
    return done.stdout


@contextlib.contextmanager
def docker(folder: Path) -> Iterator[dict[str, str]]:
    """The variables that lead to a Docker: the one that answers, else one that is started here. Raises Unable."""
    found("docker")
    try:
        run(["docker", "info"])
    except Unable as silent:
        try:
            daemon, ip = found("dockerd", Path("/usr/sbin/dockerd")), found("ip", Path("/usr/sbin/ip"))
            if os.geteuid() != 0:
                raise Unable("only root can start one")
        except Unable as missing:
            raise Unable(f"no Docker answers ({silent}), and none can be started ({missing})") from silent
        with _bridge(ip) as bridge, _daemon(daemon, bridge, folder) as socket:
            yield {"DOCKER_HOST": socket}
    else:
        yield {}


@contextlib.contextmanager
def _bridge(ip: str) -> Iterator[str]:
    """A bridge of our own, so that no rule and no route of the machine is changed."""
    taken = {each.address for found in psutil.net_if_addrs().values() for each in found}
    address = next(each for number in range(250, 0, -1) if (each := f"172.31.{number}.1") not in taken)
    name = f"tg{os.getpid()}"
    run([ip, "link", "add", "name", name, "type", "bridge"])
    try:
        run([ip, "addr", "add", f"{address}/24", "dev", name])
        run([ip, "link", "set", name, "up"])
        yield name
    finally:
        run([ip, "link", "del", name])


@contextlib.contextmanager
def _daemon(program: str, bridge: str, folder: Path) -> Iterator[str]:
    short = Path(tempfile.mkdtemp(prefix="tg-"))  # the path of a socket has a hundred letters at most
    socket = f"unix://{short}/socket"
    command = [
        *(program, "--host", socket, "--bridge", bridge, "--iptables=false", "--ip6tables=false", "--ip-masq=false"),
        *("--data-root", str(folder / "data"), "--exec-root", str(short / "exec"), "--pidfile", str(short / "pid")),
    ]
    log = folder / "dockerd.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + HANGING
        while True:
            try:
                run(["docker", "info"], {"DOCKER_HOST": socket})
                break
            except Unable:
                if process.poll() is not None or time.monotonic() > deadline:
                    last = log.read_text(errors="replace").splitlines()[-1:]
                    raise Unable(f"Docker does not start here: {''.join(last)}") from None
            time.sleep(0.2)
        yield socket
    finally:
        process.terminate()
        process.wait(HANGING)
        shutil.rmtree(short, ignore_errors=True)
        shutil.rmtree(folder / "data", ignore_errors=True)


def image_options(environment: Mapping[str, str], processor: str) -> list[str]:
    """What `sam local invoke` is told about its image. Raises Unable."""
    theirs = f"public.ecr.aws/lambda/python:{PYTHON}-{processor}"
    for words in (["image", "inspect", theirs], ["pull", "--quiet", theirs]):
        with contextlib.suppress(Unable):
            run(["docker", *words], environment)
            return ["--skip-pull-image"]
    run(["docker", "import", str(own_image(processor)), OWN_IMAGE], environment)
    return ["--skip-pull-image", "--invoke-image", OWN_IMAGE]


def own_image(processor: str) -> Path:
    """The root file system of an image, for `docker import`; made once for each environment. Raises Unable."""
    client = importlib.metadata.version(RUNTIME_CLIENT[0])
    kept = Path(sys.prefix, "share", "tidegate", f"lambda-python-{PYTHON}-{processor}-{client}.tar")
    if kept.exists():
        return kept
    debootstrap = found("debootstrap", Path("/usr/sbin/debootstrap"))
    with tempfile.TemporaryDirectory(prefix="tidegate-image-") as scratch:
        root = Path(scratch, "root")
        run([debootstrap, "--variant=minbase", "--force-check-gpg", "--include=python3", DEBIAN, str(root)])
        runtime = root / "var" / "runtime"
        run(
            [
                *(sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-config", "--target", str(runtime)),
                *(*AMAZON_LINUX[processor], "--only-binary", ":all:", RUNTIME_CLIENT[0]),
                *("--constraints", str(ROOT / "requirements.txt"), "--verify-hashes"),
            ]
        )
        (runtime / "bootstrap").write_text(BOOTSTRAP)
        (runtime / "bootstrap").chmod(0o755)
        (root / "var" / "task").mkdir()
        left_out = [f"--exclude=./{each}" for each in ("var/cache", "var/lib/apt", "usr/share/doc", "usr/share/locale")]
        draft = Path(scratch, "image.tar")
        run(["tar", "--create", "--file", str(draft), "--directory", str(root), *left_out, "."])
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(draft, kept)
    return kept


if __name__ == "__main__":
    try:
        print(own_image(sys.argv[1] if sys.argv[1:] else "x86_64"))
    except Unable as error:
        sys.exit(str(error))
