"""tidegate.toml: every mistake is reported with its line and with what is allowed there."""

import re
from dataclasses import asdict
from pathlib import Path

import pytest

from infra.roster import ROSTER
from tidegate.core.audit import AuditLimits
from tidegate.core.batches import BatchLimits
from tidegate.core.routes import Dataset, Route
from tidegate.formats.registry import FORMATS
from tidegate.settings import DAY, HOUR, BatchSettings, SettingsError, load, parse

SHIPPED = Path(__file__).parents[2] / "tidegate.example.toml"

COLUMNS = "id bigint, time timestamp, region string"

GOOD = """\
[deployment]
name = "lakehouse"

[catalog]
name = "lake"

[retention]
messages = "4d"
dead_letters = "14d"
look_back = "45d"
claims = "60d"

[[route]]
name = "flights"
bucket = "landing"
prefix = "flights/"
suffix = ".json"
format = "json"
table = "lake.raw.flights"
schema = "id bigint, time timestamp, region string"
partition_by = ["days(time)"]
max_object_bytes = "100MB"

[route.batch]
max_wait = "5m"
target_bytes = "1GiB"
target_objects = 1000
in_flight = 2
attempts = 5

[[route]]
name = "weather"
bucket = "landing"
prefix = "weather/"
format = "csv"
delimiter = ";"
table = "lake.raw.weather"
schema = "id bigint, time timestamp, region string"
"""
LINES = GOOD.splitlines()
KNOWN_FORMATS = " or ".join(", ".join(map(repr, FORMATS)).rsplit(", ", 1))


def line_of(text: str, occurrence: int = 1) -> int:
    return [number for number, line in enumerate(LINES, start=1) if line == text][occurrence - 1]


def refusal(source: str) -> str:
    """The mistakes, a line each, without columns and marks: tests/unit/test_settings_mistakes.py has those."""
    with pytest.raises(SettingsError) as error:
        parse(source)
    said = [line for line in str(error.value).splitlines() if not line.startswith("  ")]
    return "\n".join(re.sub(r"^([^ :]+:[0-9]+):[0-9]+: ", r"\1: ", line) for line in said)


def with_line(old: str, new: str) -> str:
    assert old in LINES
    return GOOD.replace(f"{old}\n", f"{new}\n", 1)


# ---- what is right


def test_the_shipped_file_loads():
    (flights,) = load(SHIPPED).core_routes()
    assert flights.name == "flights"
    assert flights.limits == BatchLimits(60, 256_000_000, 100_000, 1, 5, 120, 3600)


def test_everything_arrives_where_the_core_needs_it():
    flights, weather = parse(GOOD).core_routes()
    assert flights == Route(
        name="flights",
        bucket="landing",
        prefix="flights/",
        suffix=".json",
        dataset=Dataset("lake.raw.flights", COLUMNS, "json", ("days(time)",), 100_000_000),
        limits=BatchLimits(max_wait=300, target_bytes=2**30, target_objects=1000, in_flight=2, attempts=5),
    )
    assert (weather.suffix, weather.dataset.options, weather.limits) == ("", (("delimiter", ";"),), BatchLimits())


def test_a_route_alone_is_enough():
    route = GOOD[GOOD.index('[[route]]\nname = "weather"') :]
    found = parse(route)
    assert found.deployment.name == "tidegate"
    assert found.catalog.name == "lake"
    assert (found.retention.messages, found.retention.claims) == (4 * DAY, 60 * DAY)


def test_the_defaults_of_the_settings_are_those_of_the_core():
    assert BatchSettings().model_dump() == asdict(BatchLimits())


@pytest.mark.parametrize(
    ("written", "seconds"), [("1s", 1), ("90s", 90), ("15m", 900), ("12h", 43_200), ("14d", 1_209_600), ("5 m", 300)]
)
def test_durations(written: str, seconds: int):
    source = with_line('max_wait = "5m"', f'max_wait = "{written}"')
    assert parse(source).routes[0].batch.max_wait == seconds


@pytest.mark.parametrize(
    ("written", "size"), [('"1GiB"', 2**30), ('"256MB"', 256_000_000), ("1000", 1000), ('"1kb"', 1000)]
)
def test_sizes(written: str, size: int):
    source = with_line('target_bytes = "1GiB"', f"target_bytes = {written}")
    assert parse(source).routes[0].batch.target_bytes == size


@pytest.mark.parametrize(
    "transform",
    [
        "region",
        "days(time)",
        "hours(time)",
        "months(time)",
        "years(TIME)",
        "bucket(16, id)",
        "bucket(16,id)",
        "truncate(4, region)",
    ],
)
def test_partition_transforms(transform: str):
    source = with_line('partition_by = ["days(time)"]', f'partition_by = ["{transform}"]')
    assert parse(source).routes[0].partition_by == (transform,)


# ---- one wrong field: its line, its name, and what is allowed


@pytest.mark.parametrize(
    ("old", "new", "where", "allowed"),
    [
        ('name = "lakehouse"', 'name = "Lake House"', "deployment.name", "a lower-case letter, then"),
        ('name = "lakehouse"', "name = 5", "deployment.name", "text in quotes"),
        ('name = "lake"', 'name = "the lake"', "catalog.name", "a name of lower-case letters"),
        ('messages = "4d"', "messages = 4", "retention.messages", '"60s" or "14d"'),
        ('messages = "4d"', 'messages = "4 days"', "retention.messages", '"60s" or "14d"'),
        ('messages = "4d"', 'messages = "0d"', "retention.messages", '"60s" or "14d"'),
        ('messages = "4d"', 'messages = "-4d"', "retention.messages", '"60s" or "14d"'),
        ('messages = "4d"', 'messages = "1.5d"', "retention.messages", '"60s" or "14d"'),
        ('claims = "60d"', "claims = true", "retention.claims", '"60s" or "14d"'),
        ('name = "flights"', 'name = "-flights"', "route.1.name", "is no name: a lower-case letter"),
        ('name = "flights"', f'name = "{"f" * 32}"', "route.1.name", "too long: a lower-case letter, then at most 30"),
        ('bucket = "landing"', 'bucket = "Landing"', "route.1.bucket", "has a 'L' in it: 3 to 63"),
        ('bucket = "landing"', 'bucket = "la"', "route.1.bucket", "bucket 'la' is too short: 3 to 63"),
        (
            'bucket = "landing"',
            'bucket = "s3://landing"',
            "route.1.bucket",
            "the bucket's name alone, such as 'landing'",
        ),
        ('suffix = ".json"', "suffix = 5", "route.1.suffix", "text in quotes"),
        ('format = "json"', 'format = "xml"', "route.1.format", KNOWN_FORMATS),
        (
            'table = "lake.raw.flights"',
            'table = "raw.flights"',
            "route.1.table",
            "has 2 parts: a table is catalog.namespace.table",
        ),
        (
            'table = "lake.raw.flights"',
            'table = "lake.raw.Flights"',
            "route.1.table",
            "upper-case letters: write lake.raw.flights",
        ),
        (f'schema = "{COLUMNS}"', 'schema = ""', "route.1.schema", "1 character"),
        (
            'partition_by = ["days(time)"]',
            'partition_by = ["day(time)"]',
            "route.1.partition_by.1",
            r"did you mean days\(time\)\? .*bucket\(n, c\)",
        ),
        ('partition_by = ["days(time)"]', 'partition_by = ["days(a), b"]', "route.1.partition_by.1", "truncate"),
        (
            'partition_by = ["days(time)"]',
            'partition_by = "days(time)"',
            "route.1.partition_by",
            r'it must be a list: \["days\(time\)"\]',
        ),
        ('max_object_bytes = "100MB"', 'max_object_bytes = "large"', "route.1.max_object_bytes", "256MB|512MB"),
        ('target_bytes = "1GiB"', "target_bytes = -1", "route.1.batch.target_bytes", "256MB"),
        ('max_object_bytes = "100MB"', "max_object_bytes = 0", "route.1.max_object_bytes", "more than 0"),
        ('max_wait = "5m"', "max_wait = 300", "route.1.batch.max_wait", '"60s" or "14d"'),
        ('target_bytes = "1GiB"', "target_bytes = 0", "route.1.batch.target_bytes", "more than 0"),
        ("target_objects = 1000", "target_objects = 0", "route.1.batch.target_objects", "more than 0"),
        ("target_objects = 1000", "target_objects = 1000001", "route.1.batch.target_objects", "1000000 at most"),
        ("target_objects = 1000", "target_objects = true", "route.1.batch.target_objects", "a whole number"),
        ("in_flight = 2", 'in_flight = "2"', "route.1.batch.in_flight", "a whole number, without quotes"),
        ('prefix = "flights/"', "lanes = true", "route.1.lanes", "a whole number"),
        ('prefix = "flights/"', "lanes = 17", "route.1.lanes", "16 at most"),
        (
            'suffix = ".json"',
            "lanes = 8",
            "route.1.lanes",
            "'flights' has 8 lanes, .*`dispatch_concurrency` .* is 3",
        ),
        ('delimiter = ";"', "lanes = 5", "route.2.lanes", "'weather' has 5 lanes.* Give the route 3"),
        ('prefix = "flights/"', 'maintain = "no"', "route.1.maintain", "true or false, without quotes"),
        ('prefix = "flights/"', 'existing = "yes"', "route.1.existing", "true or false, without quotes"),
        ('prefix = "flights/"', "retired = 1", "route.1.retired", "true or false"),
        ('max_object_bytes = "100MB"', "max_object_bytes = true", "route.1.max_object_bytes", "256MB"),
        ("target_objects = 1000", "target_objects = 1.5", "route.1.batch.target_objects", "a whole number"),
        ("in_flight = 2", "in_flight = 0", "route.1.batch.in_flight", "1 at least"),
        ("in_flight = 2", "in_flight = 51", "route.1.batch.in_flight", "50 at most"),
        ("attempts = 5", "attempts = 0", "route.1.batch.attempts", "1 at least"),
        ("attempts = 5", "attempts = 21", "route.1.batch.attempts", "20 at most"),
        ("attempts = 5", 'retry_wait = "61m"', "route.1.batch.retry_wait", "longer than 1h"),
        ("attempts = 5", 'retry_wait = "0s"', "route.1.batch.retry_wait", "a whole number and a unit"),
        ("attempts = 5", 'step_aside = "0s"', "route.1.batch.step_aside", "a whole number and a unit"),
        ("attempts = 5", "step_aside = 60", "route.1.batch.step_aside", '"60s" or "14d"'),
        ('delimiter = ";"', 'delimiter = ";;"', "route.2.delimiter", "1 character"),
        (
            'delimiter = ";"',
            'encoding = "ascii"',
            "route.2.encoding",
            "an encoding is one of utf-8, utf-16, iso-8859-1,",
        ),
        ('delimiter = ";"', 'delimiter = ""', "route.2.delimiter", "1 character"),
        ('delimiter = ";"', 'delimiter = "\\n"', "route.2.delimiter", "1 character"),
        ('delimiter = ";"', "delimiter = '\"'", "route.2.delimiter", "no quote"),
        ('prefix = "flights/"', 'delimiter = ";"', "route.1.delimiter", "an option of csv files, .* format is json"),
        ('format = "csv"', 'format = "CSV"', "route.2.format", KNOWN_FORMATS),
        ('prefix = "flights/"', 'audit_from = "inventory"', "route.1.audit_from", "listing, s3-metadata-inventory"),
        ('prefix = "flights/"', 'audit_from = "s3://lists"', "route.1.audit_from", "SOURCE-BUCKET/CONFIGURATION"),
        ('prefix = "flights/"', 'audit_from = "s3://lists/*/x"', "route.1.audit_from", "SOURCE-BUCKET/CONFIGURATION"),
        (
            'prefix = "flights/"',
            'audit_from = "s3-metadata-journal"\nexisting = true\nbucket_owner = "123456789012"',
            "route.1.audit_from",
            "in the account that owns the bucket",
        ),
        ('prefix = "weather/"', f'prefix = "{"w" * 1025}"', "route.2.prefix", "1024"),
    ],
)
def test_a_wrong_value_is_refused_with_its_line_and_what_is_allowed(old: str, new: str, where: str, allowed: str):
    message = refusal(with_line(old, new))
    start = f"tidegate.toml:{line_of(old)}: {where}: "
    assert message.startswith(start)
    assert "\n" not in message
    assert re.search(allowed, message.removeprefix(start))


@pytest.mark.parametrize(
    ("section", "field", "where", "allowed"),
    [
        ("[deployment]", "nmae", "deployment.nmae", ["dev", "name"]),
        ("[catalog]", "kind", "catalog.kind", ["arn", "credential_secret", "name", "type", "uri", "warehouse"]),
        ("[retention]", "claim", "retention.claim", ["claims", "dead_letters", "look_back", "messages"]),
        (
            "[route.batch]",
            "max_waits",
            "route.1.batch.max_waits",
            ["attempts", "in_flight", "max_wait", "retry_wait", "step_aside", "target_bytes", "target_objects"],
        ),
        (
            "[[route]]",
            "table_schema",
            "route.1.table_schema",
            [
                *(
                    "audit_from",
                    "bad_rows",
                    "bad_rows_share",
                    "batch",
                    "bucket",
                    "bucket_owner",
                    "dates",
                    "decimal",
                    "delimiter",
                    "encoding",
                    "existing",
                    "expect_every",
                    "format",
                ),
                *("lanes", "maintain", "max_object_bytes", "name", "null"),
                *("partition_by", "prefix", "retired", "schema", "source", "suffix", "table", "unknown", "versioned"),
            ],
        ),
    ],
)
def test_an_unknown_field_is_refused_with_its_line_and_the_names_allowed(
    section: str, field: str, where: str, allowed: list[str]
):
    message = refusal(with_line(section, f"{section}\n{field} = 5"))
    line = line_of(section) + 1
    probably = {"nmae": "name", "claim": "claims", "max_waits": "max_wait"}
    meant = f"did you mean `{probably[field]}`? " if field in probably else ""
    assert message == f"tidegate.toml:{line}: {where}: unknown field; {meant}allowed here: {', '.join(allowed)}"


def test_an_unknown_section_is_refused_with_the_names_allowed():
    message = refusal(GOOD + "\n[notifications]\nemail = 'a@b.c'\n")
    line = len(LINES) + 2
    assert message == (
        f"tidegate.toml:{line}: notifications: unknown field; allowed here: announce, audit, catalog, deployment,"
        " limits, maintain, network, operations, retention, route, security"
    )


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("[[routes]]", "routes: unknown field; did you mean [[route]]? allowed here: announce, audit, "),
        ("[[rout]]", "rout: unknown field; did you mean [[route]]? allowed here: announce, audit, "),
    ],
)
def test_a_mistyped_route_is_found_where_it_begins(given: str, wanted: str):
    message = refusal(GOOD.replace("[[route]]", given).replace("[route.", f"{given[1:-2]}."))
    assert message.startswith(f"tidegate.toml:{line_of('[[route]]')}: {wanted}")


def test_a_mistyped_field_is_recognized():
    line = len(LINES) + 3
    message = refusal(GOOD + "\n[audit]\njob_abov = 5\n")
    assert message.startswith(f"tidegate.toml:{line}: audit.job_abov: unknown field; did you mean `job_above`? allowed")


@pytest.mark.parametrize(
    ("section", "field", "said"),
    [
        ("audit", "job_above", "a whole number, without quotes, more than 0, such as 5000000"),
        ("audit", "read_rate", "a whole number, without quotes, 100 at least, 1000000 at most, such as 5000"),
    ],
)
def test_a_number_in_quotes_is_told_what_is_allowed(section: str, field: str, said: str):
    message = refusal(GOOD + f'\n[{section}]\n{field} = "5M"\n')
    assert message.startswith(f"tidegate.toml:{len(LINES) + 3}: {section}.{field}: {said}")


@pytest.mark.parametrize("field", ["name", "bucket", "format", "table", "schema"])
def test_a_missing_field_is_named_and_points_to_its_route(field: str):
    second = GOOD.rindex("[[route]]")
    source = GOOD[:second] + re.sub(rf"(?m)^{field} = .*\n", "", GOOD[second:])
    line = line_of("[[route]]", 2)
    assert refusal(source) == f"tidegate.toml:{line}: route.2.{field}: this field is required"


def test_every_mistake_is_reported_at_once():
    source = with_line("attempts = 5", "attempts = 0").replace('delimiter = ";"', "delimiter = 1").replace("csv", "xml")
    assert [line.split(": ")[1] for line in refusal(source).splitlines()] == [
        "route.1.batch.attempts",
        "route.2.format",
        "route.2.delimiter",
    ]


def test_a_mistake_in_an_inline_table_points_to_its_line():
    source = with_line('delimiter = ";"', 'delimiter = ";"\nbatch = { attempts = 0 }')
    line = line_of('delimiter = ";"') + 1
    assert refusal(source).startswith(f"tidegate.toml:{line}: route.2.batch.attempts: ")


def test_the_line_is_right_among_comments_indents_and_text_of_many_lines():
    source = with_line(f'schema = "{COLUMNS}"', 'schema = """\n  id bigint,\n  time date\n"""  # attempts = 0')
    source = source.replace("attempts = 5", "  # attempts\n  attempts=0 # too few")
    assert refusal(source).startswith(f"tidegate.toml:{line_of('attempts = 5') + 4}: route.1.batch.attempts: ")


def test_a_section_of_the_second_route_is_not_taken_for_one_of_the_first():
    source = GOOD + "\n[route.batch]\nattempts = 0\n"
    assert refusal(source).startswith(f"tidegate.toml:{len(LINES) + 3}: route.2.batch.attempts: ")


# ---- what only the whole can tell


@pytest.mark.parametrize("source", ["", "[deployment]\nname = 'a'\n", "route = []\n"])
def test_without_a_route_there_is_nothing_to_deploy(source: str):
    assert "there is no [[route]]" in refusal(source)


def test_a_single_bracket_route_is_refused_at_its_line_and_told_to_double_it():
    message = refusal("[route]\nname = 'flights'\n")
    assert message.startswith("tidegate.toml:1: route: ")
    assert "[[route]]" in message


def test_two_routes_of_one_name_are_refused_at_the_second():
    message = refusal(with_line('name = "weather"', 'name = "flights"'))
    assert message.startswith(f"tidegate.toml:{line_of('[[route]]', 2)}: route.2: two routes are named 'flights'")


@pytest.mark.parametrize("prefix", ["flights/", "flights/2013/", "fl", ""])
def test_overlapping_routes_are_refused_at_the_second(prefix: str):
    message = refusal(with_line('prefix = "weather/"', f'prefix = "{prefix}"'))
    assert message.startswith(
        f"tidegate.toml:{line_of('[[route]]', 2)}: route.2: routes 'flights' and 'weather' overlap"
    )


def test_routes_told_apart_by_their_suffixes_do_not_overlap():
    source = with_line('prefix = "weather/"', 'prefix = "flights/"\nsuffix = ".csv"')
    assert len(parse(source).routes) == 2


def test_routes_of_two_buckets_do_not_overlap():
    source = with_line('prefix = "weather/"', 'prefix = ""').replace('bucket = "landing"', 'bucket = "inbox"', 1)
    assert len(parse(source).routes) == 2


SUBNETS = '[network]\nsubnets = ["subnet-01234567"]\nsecurity_groups = ["sg-01234567"]\n'
LAKE = '[catalog]\nname = "lake"\n'
WAREHOUSES = f"""{SUBNETS}{LAKE}type = "rest"
uri = "https://c.example.com"
warehouse = "{{}}"
[maintain]
enabled = {{}}
"""


@pytest.mark.parametrize("warehouse", ["s3://landing", "s3://landing/weather", "s3://landing/weather/2013/tables"])
def test_uploads_in_the_folders_of_tables_that_are_maintained_are_refused(warehouse: str):
    message = refusal(GOOD.replace(LAKE, WAREHOUSES.format(warehouse, "true")))
    assert f"would land in the warehouse {warehouse}, and maintenance could delete them" in message


@pytest.mark.parametrize(
    ("warehouse", "maintained"),
    [
        ("s3://landing/weather", "false"),
        ("s3://landing/tables", "true"),
        ("s3://landing/weath", "true"),
        ("s3://landing-tables", "true"),
        ("landing", "true"),
    ],
)
def test_uploads_outside_the_folders_of_tables_that_are_maintained_are_taken(warehouse: str, maintained: str):
    assert len(parse(GOOD.replace(LAKE, WAREHOUSES.format(warehouse, maintained))).routes) == 2


def test_a_table_outside_the_catalog_is_refused_and_told_what_to_call_it():
    message = refusal(with_line('table = "lake.raw.weather"', 'table = "other.raw.weather"'))
    assert message.startswith(f"tidegate.toml:{line_of('[[route]]', 2)}: route.2: ")
    assert "call it lake.raw.weather, or change [catalog] name" in message


@pytest.mark.parametrize(
    ("field", "complaint"),
    [
        ("existing = true", "whether bucket landing exists already"),
        ("versioned = false", "whether bucket landing is versioned"),
        ('source = "eventbridge"', "on the `source` of bucket landing"),
    ],
)
def test_routes_must_agree_about_their_bucket(field: str, complaint: str):
    message = refusal(with_line('prefix = "weather/"', f'prefix = "weather/"\n{field}'))
    assert f"disagree {complaint}" in message


def test_routes_must_agree_on_whose_their_bucket_is():
    source = GOOD.replace('bucket = "landing"', 'bucket = "landing"\nexisting = true')
    message = refusal(source.replace('prefix = "weather/"', 'prefix = "weather/"\nbucket_owner = "123456789012"'))
    assert "disagree on the `bucket_owner` of landing" in message


def test_a_place_to_ignore_is_a_bucket_and_a_prefix():
    places = '["s3://landing", "s3://landing/a b/c", "s3://inbox/"]'
    found = parse(f"[operations]\nignore = {places}\n{GOOD}").operations.ignored
    assert found == (("landing", ""), ("landing", "a b/c"), ("inbox", ""))
    assert parse(GOOD).operations.ignored == ()


@pytest.mark.parametrize("place", ["landing/tmp/", "s3://", "s3:///tmp", "s3://La/tmp", "arn:aws:s3:::landing"])
def test_another_place_than_a_bucket_and_a_prefix_is_refused(place: str):
    message = refusal(f'[operations]\nignore = ["{place}"]\n{GOOD}')
    assert message.startswith("tidegate.toml:2: operations.ignore")


RENAMED = with_line('prefix = "weather/"', 'prefix = "flights/"')


def test_a_renamed_route_stands_beside_its_retired_predecessor():
    assert "overlap" in refusal(RENAMED)
    first, second = parse(RENAMED.replace('name = "flights"', 'name = "flights"\nretired = true')).core_routes()
    assert (first.retired, second.retired) == (True, False)


def test_a_retired_route_keeps_its_name_and_its_bucket():
    retired = with_line('name = "flights"', 'name = "flights"\nretired = true')
    assert "two routes are named" in refusal(retired.replace('name = "weather"', 'name = "flights"'))
    assert "disagree whether" in refusal(retired.replace('format = "csv"', 'format = "csv"\nversioned = false'))


def test_all_routes_may_be_retired():
    """A deployment that only finishes what it has gathered, before it goes."""
    assert all(each.retired for each in parse(GOOD.replace("prefix", "retired = true\nprefix")).core_routes())


def test_the_core_is_told_whose_a_bucket_is():
    theirs = 'prefix = "weather/"\nexisting = true\nbucket_owner = "123456789012"'
    flights, weather = parse(
        with_line('prefix = "weather/"', theirs).replace('bucket = "landing"', 'bucket = "ours"', 1)
    ).core_routes()
    assert (flights.owner, weather.owner) == ("", "123456789012")


# ---- security, network, catalogs, limits


@pytest.mark.parametrize(
    ("section", "where", "complaint"),
    [
        ('[security]\nencryption = "mine"', "2: security.encryption", "'aws' or 'customer'"),
        ('[security]\nkms_key_arn = "alias/mine"', "2: security.kms_key_arn", "not the ARN of a KMS key"),
        ('[security]\naccess_logs = "S3://logs"', "2: security.access_logs", "3 to 63 lower-case"),
        ('[network]\nsubnets = ["subnet-01234567"]', "1: network", "both `subnets` and `security_groups`"),
        ('[network]\nsecurity_groups = ["sg-01234567"]', "1: network", "both `subnets` and `security_groups`"),
        ('[network]\nsubnets = ["vpc-1"]\nsecurity_groups = ["sg-01234567"]', "1: network", "'vpc-1' in `subnets`"),
        ('[limits]\nqueue_timeout = "10m"', "2: limits.queue_timeout", "15m to 12h"),
        ('[limits]\nqueue_timeout = "13h"', "2: limits.queue_timeout", "15m to 12h"),
        ('[limits]\nlinger = "6m"', "2: limits.linger", "5m at most"),
        ("[limits]\nlinger = 0", "2: limits.linger", 'or "0s"'),
        ('[maintain]\nenabled = "yes"', "2: maintain.enabled", "true or false, without quotes"),
        ('[maintain]\nevery = "12h"', "2: maintain.every", "1d at least: .* the next one begins after it"),
        ('[maintain]\nkeep_snapshots_for = "12h"', "2: maintain.keep_snapshots_for", "1d at least: .* the history"),
        ("[maintain]\ncompact_bytes = true", "2: maintain.compact_bytes", "256MB"),
        ('[limits]\njob_timeout = "90s"', "2: limits.job_timeout", "whole minutes"),
        ("[limits]\nintake_concurrency = 1", "2: limits.intake_concurrency", "2 at least"),
        ("[limits]\nvcpu = 5", "2: limits.vcpu", "6 at least"),
    ],
)
def test_what_the_account_could_not_use_is_refused(section: str, where: str, complaint: str):
    message = refusal(f"{section}\n{GOOD}")
    start = f"tidegate.toml:{where}: "
    assert message.startswith(start)
    assert re.search(complaint, message.removeprefix(start))


@pytest.mark.parametrize("written", ["0s", "5m"])
def test_a_job_lingers_not_at_all_or_for_five_minutes_at_most(written: str):
    assert parse(f'{SUBNETS}[limits]\nlinger = "{written}"\n{GOOD}').linger == {"0s": 0, "5m": 300}[written]


def test_a_job_lingers_only_where_it_can_tell_settling():
    """Without subnets EventBridge is out of a job's reach: it would spend seconds on time-outs, and wait for nobody."""
    assert parse(GOOD).linger == 0
    assert parse(SUBNETS + GOOD).linger == 10
    assert parse(f'[limits]\nlinger = "0s"\n{GOOD}').linger == 0
    message = refusal(f'[limits]\nlinger = "10s"\n{GOOD}')
    assert message.startswith("tidegate.toml:2: limits.linger: a job without subnets reaches only S3, Glue,")
    assert "EventBridge" in message
    assert "`subnets`" in message


def test_a_rest_catalog_is_out_of_reach_without_subnets():
    rest = with_line('name = "lake"', 'name = "lake"\ntype = "rest"\nuri = "https://catalog.example.com"')
    message = refusal(rest)
    line = line_of('name = "lake"') + 1
    assert message.startswith(f"tidegate.toml:{line}: catalog.type: a job without subnets reaches only S3, Glue,")
    assert "https://catalog.example.com" in message
    assert parse(SUBNETS + rest).catalog.type == "rest"
    assert parse(S3TABLES).catalog.type == "s3tables", "by way of Glue"


def test_a_route_may_have_as_many_lanes_as_dispatch_has_invocations():
    source = with_line('prefix = "flights/"', 'prefix = "flights/"\nlanes = 8')
    assert parse(f"[limits]\ndispatch_concurrency = 8\n{source}").routes[0].lanes == 8
    assert "route.1.lanes: " in refusal(f"[limits]\ndispatch_concurrency = 7\n{source}")


ARN = "arn:aws:s3tables:us-east-1:123456789012:bucket/tables"


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ('type = "s3tables"', "needs `arn`"),
        ('type = "rest"', "needs `uri`"),
        (f'arn = "{ARN}"', '`arn` is not allowed for a catalog of type "glue"'),
        (f'type = "rest"\nuri = "https://c.example.com"\narn = "{ARN}"', "`arn` is not allowed"),
        (f'type = "s3tables"\narn = "{ARN}"\nwarehouse = "w"', "`warehouse` is not allowed"),
        ('uri = "https://c.example.com"', "`uri` is not allowed"),
    ],
)
def test_a_catalog_has_what_its_type_needs_and_no_more(fields: str, complaint: str):
    message = refusal(with_line('name = "lake"', f'name = "lake"\n{fields}'))
    assert message.startswith(f"tidegate.toml:{line_of('[catalog]')}: catalog: ")
    assert complaint in message


S3TABLES = with_line('name = "lake"', f'name = "lake"\ntype = "s3tables"\narn = "{ARN}"')


def test_who_maintains_what_s3_tables_maintains_is_refused_where_it_is_said():
    wanted = "S3 Tables maintains its tables itself"
    by_section = refusal(f"[maintain]\nenabled = true\n{S3TABLES}")
    assert by_section.startswith(f"tidegate.toml:2: maintain.enabled: {wanted}")
    by_route = refusal(S3TABLES.replace('prefix = "weather/"', 'prefix = "weather/"\nmaintain = true'))
    line = line_of('prefix = "weather/"') + 3
    assert by_route.startswith(f"tidegate.toml:{line}: route.2.maintain: {wanted}")
    assert parse(S3TABLES.replace('prefix = "weather/"', 'prefix = "weather/"\nmaintain = false'))


@pytest.mark.parametrize("uri", ["http://catalog.example.com", "https://", "https://a b"])
def test_a_catalog_is_reached_by_https_only(uri: str):
    assert "catalog.uri: " in refusal(with_line('name = "lake"', f'name = "lake"\ntype = "rest"\nuri = "{uri}"'))


def test_a_created_bucket_has_no_other_owner():
    message = refusal(with_line('prefix = "weather/"', 'prefix = "weather/"\nbucket_owner = "123456789012"'))
    assert "`bucket_owner` is for an `existing` bucket" in message


def test_a_key_that_is_named_is_used():
    assert not parse(GOOD).security.customer_key
    assert parse(f'[security]\nencryption = "customer"\n{GOOD}').security.customer_key
    key = "arn:aws:kms:us-east-1:123456789012:key/1-2"
    assert parse(f'[security]\nkms_key_arn = "{key}"\n{GOOD}').security.customer_key


def test_the_ledger_is_warmed_only_on_demand():
    assert parse(GOOD).limits.warm_writes is None
    assert parse(f"[limits]\nwarm_writes = 9_000\n{GOOD}").limits.warm_writes == 9_000
    assert "more than 4000" in refusal(f"[limits]\nwarm_writes = 4_000\n{GOOD}")


def test_the_defaults_fit_a_new_account():
    limits = parse(GOOD).limits
    assert sum(row.concurrency(limits) for row in ROSTER) <= 10
    assert limits.vcpu <= 16
    assert not limits.reserve_concurrency


@pytest.mark.parametrize(
    ("messages", "dead_letters", "look_back", "claims", "complaint"),
    [
        ("15d", "14d", "60d", "90d", "may be 14d at most"),
        ("4d", "15d", "60d", "90d", "may be 14d at most"),
        ("4d", "14d", "40d", "60d", r"`look_back` must be longer .*= 40d"),
        ("4d", "14d", "39d", "60d", r"`look_back` must be longer .*= 40d"),
        ("14d", "14d", "70d", "90d", r"`look_back` must be longer .*= 70d"),
        ("4d", "14d", "45d", "45d", "`claims` must be longer than `look_back`"),
        ("4d", "14d", "45d", "44d", "`claims` must be longer than `look_back`"),
    ],
)
def test_each_retention_must_outlive_the_one_before_it(
    messages: str, dead_letters: str, look_back: str, claims: str, complaint: str
):
    source = GOOD.replace('messages = "4d"', f'messages = "{messages}"')
    source = source.replace('dead_letters = "14d"', f'dead_letters = "{dead_letters}"')
    source = source.replace('look_back = "45d"', f'look_back = "{look_back}"')
    source = source.replace('claims = "60d"', f'claims = "{claims}"')
    message = refusal(source)
    assert message.startswith(f"tidegate.toml:{line_of('[retention]')}: retention: ")
    assert re.search(complaint, message)


@pytest.mark.parametrize(
    ("messages", "dead_letters", "look_back", "claims"),
    [("14d", "14d", "71d", "72d"), ("1s", "1s", "6s", "86406s"), ("4d", "14d", "41d", "42d")],
)
def test_retentions_that_outlive_one_another_by_the_least_are_accepted(
    messages: str, dead_letters: str, look_back: str, claims: str
):
    source = GOOD.replace('messages = "4d"', f'messages = "{messages}"')
    source = source.replace('dead_letters = "14d"', f'dead_letters = "{dead_letters}"')
    source = source.replace('look_back = "45d"', f'look_back = "{look_back}"')
    parse(source.replace('claims = "60d"', f'claims = "{claims}"'))


# ---- files


def test_what_is_not_toml_is_refused_with_its_place():
    assert re.search(r"tidegate\.toml:2: not TOML: invalid value", refusal("[deployment]\nname = \n"))


def test_a_field_given_twice_is_refused():
    assert "`name` is given twice" in refusal("[deployment]\nname = 'a'\nname = 'b'\n")


def test_a_file_that_is_missing_is_named(tmp_path: Path):
    path = tmp_path / "nowhere.toml"
    with pytest.raises(SettingsError, match=r"there is no .*nowhere\.toml: .*--config"):
        load(path)


def test_a_file_that_is_not_text_is_named(tmp_path: Path):
    path = tmp_path / "binary.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match=r"binary\.toml: is not UTF-8"):
        load(path)


def test_errors_name_the_file_that_was_read(tmp_path: Path):
    path = tmp_path / "mine.toml"
    path.write_text(with_line("attempts = 5", "attempts = 0"))
    with pytest.raises(SettingsError, match=re.escape(f"{path}:{line_of('attempts = 5')}:12: route.1.batch.attempts")):
        load(path)


AUDIT = """
[audit]
min_age = "6h"
max_age = "20d"
rate = 100
every = "12h"
"""


def test_an_audit_looks_from_min_age_to_max_age_and_never_beyond_look_back():
    assert parse(GOOD).audit_limits() == AuditLimits(HOUR * 12, DAY * 30, every=DAY, horizon=DAY * 45)
    assert parse(GOOD + AUDIT).audit_limits() == AuditLimits(HOUR * 6, DAY * 20, every=HOUR * 12, horizon=DAY * 45)
    short = GOOD.replace('"4d"', '"1d"').replace('"14d"', '"2d"').replace('"45d"', '"8d"').replace('"60d"', '"9d"')
    assert parse(short).audit_limits() == AuditLimits(HOUR * 12, DAY * 8, every=DAY, horizon=DAY * 8)


@pytest.mark.parametrize(
    ("field", "becomes", "complaint"),
    [
        ('max_age = "20d"', 'max_age = "46d"', "audit.max_age: .*not be longer than `look_back`.* 1080h"),
        ('min_age = "6h"', 'min_age = "20d"', "audit.m.._age: .*shorter than `max_age`"),
        ('every = "12h"', 'every = "59m"', "audit.every: .*1h at least"),
        ("rate = 100", "rate = 0", "audit.rate"),
    ],
)
def test_an_audit_that_cannot_be_is_refused_where_it_is_said(field: str, becomes: str, complaint: str):
    source = GOOD + AUDIT.replace(field, becomes)
    with pytest.raises(SettingsError, match=f"tidegate.toml:[0-9]+:[0-9]+: {complaint}"):
        parse(source)


FIRST_ROUTE = GOOD[: GOOD.index("[route.batch]")]


@pytest.mark.parametrize(
    ("enabled", "route", "maintained", "asked_for"),
    [
        ("", "", True, False),
        ("", "maintain = true", True, True),
        ("", "maintain = false", False, False),
        ("enabled = true", "", True, False),
        ("enabled = false", "", False, False),
        ("enabled = false", "maintain = true", True, True),
    ],
)
def test_only_a_route_that_says_so_has_a_table_of_others_maintained(
    enabled: str, route: str, maintained: bool, asked_for: bool
) -> None:
    settings = parse(FIRST_ROUTE + route + "\n\n[maintain]\n" + enabled)
    assert (settings.maintained_tables() != ()) is maintained
    assert (settings.tables_asked_for() != ()) is asked_for


def test_a_route_that_says_no_decides_for_a_table_that_another_asks_for() -> None:
    one = FIRST_ROUTE + "maintain = false\n"
    two = one + FIRST_ROUTE[FIRST_ROUTE.index("[[route]]") :].replace("flights", "others", 2) + "maintain = true\n"
    two = two.replace("lake.raw.others", "lake.raw.flights")
    assert (parse(two).maintained_tables(), parse(two).tables_asked_for()) == ((), ())


def test_no_table_is_begun_after_half_of_the_jobs_time() -> None:
    assert parse(GOOD).maintain_limits().begin_for == 4 * HOUR
    assert parse(GOOD + '\n[limits]\njob_timeout = "1h"\n').maintain_limits().begin_for == HOUR // 2


@pytest.mark.parametrize("unknown", ["report", "refuse", "ignore"])
@pytest.mark.parametrize("format", ["json", "parquet"])
def test_a_route_says_what_becomes_of_columns_that_its_schema_lacks(format: str, unknown: str):
    given = GOOD.replace("[[route]]", f'[[route]]\nunknown = "{unknown}"', 1)
    given = re.sub('format = "[a-z]+"', f'format = "{format}"', given, count=1)
    route = parse(given).core_routes()[0]
    assert dict(route.dataset.options).get("unknown", "report") == unknown
    assert ("unknown" in dict(route.dataset.options)) is (unknown != "report")


def test_another_word_for_unknown_columns_is_refused_with_those_allowed():
    message = refusal(with_line("[[route]]", '[[route]]\nunknown = "evolve"'))
    assert "route.1.unknown: " in message
    assert all(word in message for word in ("report", "refuse", "ignore"))
