"""Mistakes with what is deployed: routes, tables, settings."""

from dataclasses import replace
from typing import Any

from simulation.checker.mistakes.writes import WriteRequest
from simulation.checker.planting import Bug, Call, Strike, answered, replaced, rewired, rewritten
from simulation.world.faults import Kind
from tidegate import wiring
from tidegate.core.routes import decode_dataset, encode_dataset


def _configured_only(real: Any) -> Any:
    def routes_to_settle(configured: Any, ports: Any) -> Any:
        return [route for route in real(configured, ports) if route.name in configured]

    return routes_to_settle


def _sealed_for_no_table(write: WriteRequest) -> None:
    if write.value("state") == "SEALED":
        write.leaves("table")
        write.leaves("sealed_for")


def _unknown(ask: Call) -> Call:
    return lambda parameters: {} if parameters["Key"]["pk"]["S"] == "routes" else ask(parameters)


def _not_remembered(ask: Call) -> Call:
    return lambda parameters: {"Attributes": {}} if WriteRequest(parameters).sets("settings") else ask(parameters)


def _settings_of_now(parameters: dict[str, Any]) -> dict[str, Any]:
    arguments = parameters["jobDriver"]["sparkSubmit"]["entryPointArguments"]
    route = wiring.this_deployment().routes.get(parameters["tags"]["tidegate:route"])
    for position, each in enumerate(arguments):
        if route and each.startswith("--dataset="):
            fixed = decode_dataset(each.removeprefix("--dataset="))
            arguments[position] = "--dataset=" + encode_dataset(replace(route.dataset, table=fixed.table))
    return parameters


BUGS = (
    Bug(
        "only configured routes are settled",
        "Settling visits only configured routes, not all that the ledger knows.",
        (replaced("tidegate.flows.settle:routes_to_settle", _configured_only),),
        "renamed_under_way",
    ),
    Bug(
        "the route's current table",
        "An attempt writes to the route's current table, not to the one that its batch was sealed for.",
        (rewritten("b#", _sealed_for_no_table),),
        "moved_under_way",
        (Strike("driver iceberg.swap", Kind.DIE_AFTER, 3),),
    ),
    Bug(
        "notices of unknown routes",
        "Dispatch gives back notices of routes that the configuration lacks, and does not read the ledger.",
        (answered("dynamodb", "GetItem", _unknown),),
        "renamed_under_way",
        strikes=(Strike("dispatch dynamodb.UpdateItem", Kind.DIE_AFTER),),
    ),
    Bug(
        "routes are not remembered",
        "The route is not recorded in the ledger before a notice joins its batch.",
        (answered("dynamodb", "UpdateItem", _not_remembered),),
        "renamed_under_way",
    ),
    Bug(
        "the route's current settings",
        "A job reads by the route's current settings, not by those recorded for its attempt.",
        (rewired("emr-serverless", "StartJobRun", _settings_of_now),),
        "moved_with_its_format",
        (Strike("driver iceberg.load", Kind.DIE_BEFORE),),
    ),
)
