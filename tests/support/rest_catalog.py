"""Iceberg's own REST catalog, in a process of its own: the adapter and the servlet that Iceberg tests its clients with.

Iceberg publishes a program around them (`RESTCatalogServer` of iceberg-open-api), which listens on every address of the
machine, and from 1.11.0 on without what it needs (https://github.com/apache/iceberg/pull/16163). So the few lines of it
are written here, in Python, through the same bridge that Spark uses: on 127.0.0.1, on a port that nobody else has.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from tests.support import maven
from tidegate_local import toolchain


@contextlib.contextmanager
def running(warehouse: Path) -> Iterator[str]:
    """The catalog's address, for as long as the context lasts. It keeps its tables in a SQLite file and the folder."""
    spark = Path(toolchain.spark_environment()["SPARK_HOME"], "jars")
    # Spark's jars last: they hold older or shaded copies of some
    ours = [*maven.fetched(maven.REST_CATALOG), *(path for path in toolchain.jars() if "sqlite" in path.name)]
    (bridge,) = spark.glob("py4j-*.jar")
    said: deque[str] = deque(maxlen=200)  # newest first: so the bridge fills it
    port, token, process = launch_gateway(
        jarpath=str(bridge),
        classpath=":".join(map(str, [*ours, spark / "*"])),
        javaopts=["-Xmx512m", "-XX:TieredStopAtLevel=1"],
        java_path=str(toolchain.java() / "bin" / "java"),
        redirect_stdout=said,
        redirect_stderr=said,
        die_on_exit=True,
        enable_auth=True,
        return_proc=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True))
    try:
        yield f"http://127.0.0.1:{_serve(gateway.jvm, warehouse)}"
    except Exception as error:
        error.add_note("The REST catalog's process said:\n" + "".join(reversed(said)))
        raise
    finally:
        gateway.close()
        process.kill()  # what it keeps is the test's own, and goes with the test
        process.wait()


def _serve(jvm: JavaGateway.jvm, warehouse: Path) -> int:
    properties = {
        "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "uri": f"jdbc:sqlite:{warehouse / 'catalog.db'}?busy_timeout=20000",
        "jdbc.schema-version": "V1",
        "warehouse": warehouse.as_uri(),
    }
    iceberg, jetty = jvm.org.apache.iceberg, jvm.org.eclipse.jetty
    catalog = iceberg.CatalogUtil.buildIcebergCatalog("backend", properties, jvm.org.apache.hadoop.conf.Configuration())
    servlet = iceberg.rest.RESTCatalogServlet(iceberg.rest.RESTCatalogAdapter(catalog))
    context = jetty.ee10.servlet.ServletContextHandler()
    context.addServlet(jetty.ee10.servlet.ServletHolder(servlet), "/*")
    server = jetty.server.Server(jvm.java.net.InetSocketAddress("127.0.0.1", 0))
    server.setHandler(context)
    server.start()
    port: int = server.getConnectors()[0].getLocalPort()
    return port
