"""The verb `ui`."""

from typing import Annotated

import typer

from tidegate.cli import deployment, json_output, plugins
from tidegate.cli.exits import Expected
from tidegate.cli.options import DeploymentOption, JsonOption

PageOption = Annotated[
    int | None, typer.Option("--port", min=1, max=65535, help="Where the page is. Default: any free port.")
]


class PortTaken(Expected):
    """The page's port cannot be listened on."""


def ui(port: PageOption = None, folder: DeploymentOption = None, as_json: JsonOption = False) -> None:
    """Serve a page that shows where the uploads are, live, until Ctrl-C.

    It listens on 127.0.0.1 only. Whoever has the address that it prints sees the deployment with your credentials, and
    can release what is in quarantine. The page changes nothing else.
    """
    plugins.require("ui")
    # these need the extra
    from tidegate.ui.app import TOKEN, Ui
    from tidegate.ui.guard import Secrets
    from tidegate.ui.questions import Questions
    from tidegate.ui.server import HOST, listen, server_on

    questions, known = Questions(deployment.find(folder)), Secrets.new()
    try:
        listener = listen(port or 0)
    except OSError as error:
        raise PortTaken(f"port {port} of {HOST} cannot be used: {error.strerror}. Name another one by --port") from None
    number = listener.getsockname()[1]
    address = f"http://{HOST}:{number}/?{TOKEN}={known.token}"
    if as_json:
        typer.echo(json_output.dumps(json_output.document(deployment=questions.name, address=address)))
    else:
        typer.echo(address)
        typer.echo(f"Open this in a browser: it shows the deployment {questions.name}. Ctrl-C ends it.", err=True)
    server_on(listener, Ui(questions, known, cookie=f"tidegate-{number}")).serve_forever()
