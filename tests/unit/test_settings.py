"""tidegate.toml: every mistake is reported with its line and with what is allowed there."""

import re
from dataclasses import asdict
from pathlib import Path
from typing import get_args

import pytest

from infra.roster import ROSTER
from tidegate.core.audit import AuditLimits
from tidegate.core.batches import BatchLimits
from tidegate.core.routes import Dataset, Route
from tidegate.core.workers import ALWAYS
from tidegate.formats.registry import FORMATS, UNKNOWN
from tidegate.settings import DAY, HOUR, BatchSettings, LakeCatalog, SettingsError, fixed, load, parse
from tidegate.settings.routes import RouteSettings

SHIPPED = Path(__file__).parents[2] / "tidegate.example.toml"

COLUMNS = "id bigint, time timestamp, region string"

GOOD = """\
[deployment]
name = "lakehouse"

[retention]
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
in_flight = 2

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
        limits=BatchLimits(max_wait=300, target_bytes=2**30, in_flight=2),
    )
    assert (weather.suffix, weather.dataset.options, weather.limits) == ("", (("delimiter", ";"),), BatchLimits())


def test_a_route_alone_is_enough():
    route = GOOD[GOOD.index('[[route]]\nname = "weather"') :]
    found = parse(route)
    assert found.deployment.name == "tidegate"
    assert found.catalog.name == "lake"
    assert found.retention.claims == 60 * DAY


def test_the_defaults_of_the_settings_are_those_of_the_core():
    assert parse(GOOD).core_routes()[1].limits == BatchLimits()
    assert BatchSettings().model_dump().items() <= asdict(BatchLimits()).items()


@pytest.mark.parametrize(
    ("section", "field"),
    [
        ("retention", "look_back"),
        ("limits", "memory_gb"),
        ("audit", "min_age"),
        ("maintain", "every"),
        ("catalog", "type"),
    ],
)
def test_what_is_derived_is_no_setting(section: str, field: str):
    """There is one way to say a thing: a formula in the reference cannot be overruled by a field beside it."""
    there = f"[{section}]\n"
    source = GOOD.replace(there, f"{there}{field} = 5\n", 1) if there in GOOD else f"{GOOD}\n{there}{field} = 5\n"
    assert f".{field}: unknown field" in refusal(source)


def test_the_catalog_is_called_what_the_tables_say():
    assert parse(GOOD.replace('"lake.', '"house.')).catalog.name == "house"
    message = refusal(with_line('table = "lake.raw.weather"', 'table = "house.raw.weather"'))
    assert "is not in the catalog 'lake' of route 'flights': a deployment writes to one catalog" in message


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
        ('claims = "60d"', "claims = 4", "retention.claims", '"60s" or "14d"'),
        ('claims = "60d"', 'claims = "4 days"', "retention.claims", '"60s" or "14d"'),
        ('claims = "60d"', 'claims = "0d"', "retention.claims", '"60s" or "14d"'),
        ('claims = "60d"', 'claims = "-4d"', "retention.claims", '"60s" or "14d"'),
        ('claims = "60d"', 'claims = "1.5d"', "retention.claims", '"60s" or "14d"'),
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
        ("in_flight = 2", 'in_flight = "2"', "route.1.batch.in_flight", "a whole number, without quotes"),
        ('prefix = "flights/"', "lanes = true", "route.1.lanes", "a whole number"),
        ('prefix = "flights/"', "lanes = 17", "route.1.lanes", "16 at most"),
        ('prefix = "flights/"', 'maintain = "no"', "route.1.maintain", "true or false, without quotes"),
        ('prefix = "flights/"', 'existing = "yes"', "route.1.existing", "true or false, without quotes"),
        ('prefix = "flights/"', "retired = 1", "route.1.retired", "true or false"),
        ('max_object_bytes = "100MB"', "max_object_bytes = true", "route.1.max_object_bytes", "256MB"),
        ("in_flight = 2", "in_flight = 0", "route.1.batch.in_flight", "1 at least"),
        ("in_flight = 2", "in_flight = 51", "route.1.batch.in_flight", "50 at most"),
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
        ("[retention]", "claim", "retention.claim", ["claims"]),
        (
            "[route.batch]",
            "max_waits",
            "route.1.batch.max_waits",
            ["in_flight", "max_wait", "target_bytes"],
        ),
        (
            "[[route]]",
            "table_schema",
            "route.1.table_schema",
            [
                *(
                    "audit_from",
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
                    "from_key",
                    "header",
                ),
                *("lanes", "maintain", "max_object_bytes", "name", "null", "on_delete", "on_overwrite"),
                *(
                    "partition_by",
                    "prefix",
                    "retired",
                    "schema",
                    "source",
                    "suffix",
                    "table",
                    "unknown",
                    "versioned",
                    "where",
                ),
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


def test_a_field_of_another_section_is_told_where_it_belongs():
    said = refusal(GOOD.replace("[[route]]", '[[route]]\nmax_wait = "5s"', 1))
    assert "route.1.max_wait: unknown field here; it belongs below [route.batch]" in said
    said = refusal(GOOD + '\n[maintain]\nsuffix = "x"\n')
    assert "maintain.suffix: unknown field here; it belongs below [[route]]" in said


def test_a_mistyped_field_is_recognized():
    line = len(LINES) + 3
    message = refusal(GOOD + "\n[limits]\nvcpus = 5\n")
    assert message.startswith(f"tidegate.toml:{line}: limits.vcpus: unknown field; did you mean `vcpu`? allowed")


def test_a_number_in_quotes_is_told_what_is_allowed():
    message = refusal(GOOD + '\n[limits]\nvcpu = "16"\n')
    said = "a whole number, without quotes, 6 at least, 10000 at most, such as 16"
    assert message.startswith(f"tidegate.toml:{len(LINES) + 3}: limits.vcpu: {said}")


@pytest.mark.parametrize("field", ["name", "bucket", "format", "table", "schema"])
def test_a_missing_field_is_named_and_points_to_its_route(field: str):
    second = GOOD.rindex("[[route]]")
    source = GOOD[:second] + re.sub(rf"(?m)^{field} = .*\n", "", GOOD[second:])
    line = line_of("[[route]]", 2)
    assert refusal(source) == f"tidegate.toml:{line}: route.2.{field}: this field is required"


def test_every_mistake_is_reported_at_once():
    source = (
        with_line("in_flight = 2", "in_flight = 0").replace('delimiter = ";"', "delimiter = 1").replace("csv", "xml")
    )
    assert [line.split(": ")[1] for line in refusal(source).splitlines()] == [
        "route.1.batch.in_flight",
        "route.2.format",
        "route.2.delimiter",
    ]


def test_a_mistake_in_an_inline_table_points_to_its_line():
    source = with_line('delimiter = ";"', 'delimiter = ";"\nbatch = { in_flight = 0 }')
    line = line_of('delimiter = ";"') + 1
    assert refusal(source).startswith(f"tidegate.toml:{line}: route.2.batch.in_flight: ")


def test_the_line_is_right_among_comments_indents_and_text_of_many_lines():
    source = with_line(f'schema = "{COLUMNS}"', 'schema = """\n  id bigint,\n  time date\n"""  # in_flight = 0')
    source = source.replace("in_flight = 2", "  # in_flight\n  in_flight=0 # too few")
    assert refusal(source).startswith(f"tidegate.toml:{line_of('in_flight = 2') + 4}: route.1.batch.in_flight: ")


def test_a_section_of_the_second_route_is_not_taken_for_one_of_the_first():
    source = GOOD + "\n[route.batch]\nin_flight = 0\n"
    assert refusal(source).startswith(f"tidegate.toml:{len(LINES) + 3}: route.2.batch.in_flight: ")


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
RETENTION = "[retention]\n"
MAINTAINED = GOOD.replace('prefix = "flights/"', 'prefix = "flights/"\nmaintain = true')
WAREHOUSES = f"""{SUBNETS}[catalog]
uri = "https://c.example.com"
warehouse = "{{}}"

[retention]
"""


@pytest.mark.parametrize("warehouse", ["s3://landing", "s3://landing/weather", "s3://landing/weather/2013/tables"])
def test_uploads_in_the_folders_of_tables_that_are_maintained_are_refused(warehouse: str):
    message = refusal(MAINTAINED.replace(RETENTION, WAREHOUSES.format(warehouse)))
    assert f"would land in the warehouse {warehouse}, and maintenance could delete them" in message


@pytest.mark.parametrize("warehouse", ["s3://landing/tables", "s3://landing/weath", "s3://landing-tables", "landing"])
def test_uploads_outside_the_folders_of_tables_that_are_maintained_are_taken(warehouse: str):
    assert len(parse(MAINTAINED.replace(RETENTION, WAREHOUSES.format(warehouse))).routes) == 2


def test_nothing_deletes_files_of_tables_that_are_not_maintained():
    assert len(parse(GOOD.replace(RETENTION, WAREHOUSES.format("s3://landing/weather"))).routes) == 2


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
        ('[security]\nencryption = "mine"', "2: security.encryption", "is not aws, customer, or the ARN of a KMS key"),
        ('[security]\naccess_logs = "S3://logs"', "2: security.access_logs", "3 to 63 lower-case"),
        ('[network]\nsubnets = ["subnet-01234567"]', "1: network", "both `subnets` and `security_groups`"),
        ('[network]\nsecurity_groups = ["sg-01234567"]', "1: network", "both `subnets` and `security_groups`"),
        ('[network]\nsubnets = ["vpc-1"]\nsecurity_groups = ["sg-01234567"]', "1: network", "'vpc-1' in `subnets`"),
        ('[maintain]\nkeep_snapshots_for = "12h"', "2: maintain.keep_snapshots_for", "1d at least: .* the history"),
        ("[limits]\nvcpu = 5", "2: limits.vcpu", "6 at least"),
    ],
)
def test_what_the_account_could_not_use_is_refused(section: str, where: str, complaint: str):
    message = refusal(f"{section}\n{GOOD}")
    start = f"tidegate.toml:{where}: "
    assert message.startswith(start)
    assert re.search(complaint, message.removeprefix(start))


@pytest.mark.parametrize(
    ("largest", "hours"), [("100MB", 8), ("100GB", 8), ("150GB", 12), ("200GB", 16), ("300GB", 17), ("5TB", 17)]
)
def test_a_job_may_run_for_as_long_as_the_largest_file_may_take(largest: str, hours: int):
    settings = parse(with_line('max_object_bytes = "100MB"', f'max_object_bytes = "{largest}"'))
    expected = max(hours, 8) * HOUR
    # the other route takes files of 100 GB
    assert settings.job_timeout == expected
    assert settings.maintain_limits().begin_for == expected // 2, "no table is begun after half of the job's time"


def test_each_lane_has_an_invocation_of_its_own():
    assert parse(GOOD).concurrency == 3
    assert parse(with_line('prefix = "flights/"', 'prefix = "flights/"\nlanes = 8')).concurrency == 8


REST = GOOD.replace(RETENTION, '[catalog]\nuri = "https://catalog.example.com"\n\n[retention]\n')


def test_a_rest_catalog_is_out_of_reach_without_subnets():
    message = refusal(REST)
    line = line_of("[retention]") + 1
    assert message.startswith(f"tidegate.toml:{line}: catalog.uri: a job without subnets reaches only S3, Glue,")
    assert "https://catalog.example.com" in message
    assert parse(SUBNETS + REST).catalog == LakeCatalog("lake", "rest", uri="https://catalog.example.com")


ARN = "arn:aws:s3tables:us-east-1:123456789012:bucket/tables"
S3TABLES = GOOD.replace(RETENTION, f'[catalog]\nwarehouse = "{ARN}"\n\n[retention]\n')


def test_what_a_catalog_has_says_of_which_type_it_is():
    assert parse(GOOD).catalog == LakeCatalog("lake", "glue")
    assert parse(S3TABLES).catalog == LakeCatalog("lake", "s3tables", arn=ARN), "by way of Glue"
    by_rest = parse(SUBNETS + REST.replace('example.com"', f'example.com"\nwarehouse = "{ARN}"')).catalog
    assert (by_rest.type, by_rest.arn, by_rest.warehouse) == ("rest", None, ARN)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ('warehouse = "w"', "catalog.warehouse: without a `uri` this is the ARN of a table bucket"),
        (
            'credential_secret = "arn:aws:secretsmanager:us-east-1:123456789012:secret:lake-AbCdEf"',
            "catalog.credential_secret: this is for a REST catalog: give its `uri`",
        ),
    ],
)
def test_a_catalog_has_what_its_type_needs_and_no_more(fields: str, complaint: str):
    message = refusal(f"[catalog]\n{fields}\n{GOOD}")
    assert message.startswith(f"tidegate.toml:2: {complaint}")


def test_who_maintains_what_s3_tables_maintains_is_refused_where_it_is_said():
    message = refusal(S3TABLES.replace('prefix = "weather/"', 'prefix = "weather/"\nmaintain = true'))
    line = line_of('prefix = "weather/"') + 4
    assert message.startswith(f"tidegate.toml:{line}: route.2.maintain: S3 Tables maintains its tables itself")
    assert parse(S3TABLES.replace('prefix = "weather/"', 'prefix = "weather/"\nmaintain = false'))


@pytest.mark.parametrize("uri", ["http://catalog.example.com", "https://", "https://a b"])
def test_a_catalog_is_reached_by_https_only(uri: str):
    assert "catalog.uri: " in refusal(f'[catalog]\nuri = "{uri}"\n{GOOD}')


def test_a_created_bucket_has_no_other_owner():
    message = refusal(with_line('prefix = "weather/"', 'prefix = "weather/"\nbucket_owner = "123456789012"'))
    assert "`bucket_owner` is for an `existing` bucket" in message


def test_a_key_that_is_named_is_used():
    assert not parse(GOOD).security.customer_key
    assert parse(f'[security]\nencryption = "customer"\n{GOOD}').security.customer_key
    key = "arn:aws:kms:us-east-1:123456789012:key/1-2"
    named = parse(f'[security]\nencryption = "{key}"\n{GOOD}').security
    assert (named.customer_key, named.own_key) == (True, key)


def test_the_defaults_fit_a_new_account():
    settings = parse(GOOD)
    assert sum(row.concurrency(settings) for row in ROSTER) <= 10
    assert settings.limits.vcpu <= 16


def test_claims_outlive_what_an_audit_looks_at_and_that_outlives_every_message():
    assert fixed.TRAVEL < fixed.LOOK_BACK
    assert parse(with_line('claims = "60d"', 'claims = "46d"')).audit_limits().horizon == 45 * DAY
    message = refusal(with_line('claims = "60d"', 'claims = "45d"'))
    line = line_of("[retention]") + 1
    assert message.startswith(f"tidegate.toml:{line}: retention.claims: 46d at least: an audit looks back 45d")


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
    path.write_text(with_line("in_flight = 2", "in_flight = 0"))
    with pytest.raises(
        SettingsError, match=re.escape(f"{path}:{line_of('in_flight = 2')}:13: route.1.batch.in_flight")
    ):
        load(path)


def test_an_audit_looks_from_12_hours_to_30_days_whatever_claims_are():
    """So whoever raises `claims` never has an audit look at what the ledger has forgotten."""
    for claims in ("46d", "60d", "365d"):
        limits = parse(with_line('claims = "60d"', f'claims = "{claims}"')).audit_limits()
        assert limits == AuditLimits(HOUR * 12, DAY * 30, every=DAY, horizon=DAY * 45)
    assert parse(f'{GOOD}\n[audit]\nevery = "12h"\n').audit_limits().every == 12 * HOUR


@pytest.mark.parametrize(("every", "complaint"), [("59m", "1h at least"), ("45d", "44d at most")])
def test_an_audit_that_would_skip_uploads_is_refused_where_it_is_said(every: str, complaint: str):
    assert f"audit.every: {complaint}" in re.sub(
        "the audit looks once .* due: ", "", refusal(f'[audit]\nevery = "{every}"\n{GOOD}')
    )


FIRST_ROUTE = GOOD[: GOOD.index("[route.batch]")]


@pytest.mark.parametrize(
    ("route", "maintained", "asked_for"),
    [
        ("", True, False),
        ("maintain = true", True, True),
        ("maintain = false", False, False),
    ],
)
def test_only_a_route_that_says_so_has_a_table_of_others_maintained(route: str, maintained: bool, asked_for: bool):
    settings = parse(FIRST_ROUTE + route)
    assert (settings.maintained_tables() != ()) is maintained
    assert (settings.tables_asked_for() != ()) is asked_for


def test_a_route_that_says_no_decides_for_a_table_that_another_asks_for() -> None:
    one = FIRST_ROUTE + "maintain = false\n"
    two = one + FIRST_ROUTE[FIRST_ROUTE.index("[[route]]") :].replace("flights", "others", 2) + "maintain = true\n"
    two = two.replace("lake.raw.others", "lake.raw.flights")
    assert (parse(two).maintained_tables(), parse(two).tables_asked_for()) == ((), ())


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


@pytest.mark.parametrize(("said", "seconds"), [("0s", 0), ("10s", 10), ("15m", 900), ("1h", 3_600), ("always", ALWAYS)])
def test_how_long_a_worker_waits_for_a_batch(said: str, seconds: int):
    assert parse(f'{GOOD}\n[limits]\nstay = "{said}"').limits.stay == seconds


def test_the_worker_that_is_always_there_leaves_room_for_another_job():
    with pytest.raises(SettingsError, match='stay = "always" needs vcpu = 12 at least'):
        parse(f'{GOOD}\n[limits]\nstay = "always"\nvcpu = 11')
    assert parse(f'{GOOD}\n[limits]\nstay = "always"\nvcpu = 12').limits.vcpu == 12


@pytest.mark.parametrize("said", ["2h", "0m", "ever", ""])
def test_a_worker_waits_for_an_hour_at_most_or_always(said: str):
    with pytest.raises(SettingsError, match='it is "always", or "0s" to "1h"'):
        parse(f'{GOOD}\n[limits]\nstay = "{said}"')


@pytest.mark.parametrize(
    ("beside", "complaint"),
    [
        ("versioned = false", "a bucket without versions has none"),
        ("existing = true\nversioned = false", "a bucket without versions has none"),
        ("bad_rows_share = 0.1", "would stay in the table of rejected rows"),
    ],
)
def test_a_route_that_replaces_needs_versions_and_sets_no_rows_aside(beside: str, complaint: str):
    line = 'prefix = "flights/"'
    assert complaint in refusal(with_line(line, f'{line}\non_overwrite = "replace"\n{beside}'))
    assert parse(with_line(line, f'{line}\non_overwrite = "replace"')).routes[0].route().dataset.replaces
    assert not parse(GOOD).routes[0].route().dataset.replaces


def test_a_route_that_skips_the_same_bytes_needs_versions_and_sets_no_rows_aside():
    line = 'prefix = "flights/"'
    skips = f'{line}\non_overwrite = "skip same bytes"'
    dataset = parse(with_line(line, skips)).routes[0].route().dataset
    assert (dataset.skips, dataset.replaces) == (True, False)
    assert "the same bytes under a key are one upload" in refusal(with_line(line, f"{skips}\nversioned = false"))
    assert "in the table of rejected rows" in refusal(with_line(line, f"{skips}\nbad_rows_share = 0.1"))
    assert 'it goes with on_overwrite = "replace"' in refusal(with_line(line, f'{skips}\non_delete = "remove"'))


def test_a_route_that_removes_replaces_too():
    line = 'prefix = "flights/"'
    removes = f'{line}\non_delete = "remove"'
    assert 'it goes with on_overwrite = "replace"' in refusal(with_line(line, removes))
    assert parse(with_line(line, f'{removes}\non_overwrite = "replace"')).routes[0].route().dataset.removes


def test_a_route_may_say_whatever_the_option_takes():
    values = get_args(RouteSettings.model_fields["unknown"].annotation)
    with pytest.raises(ValueError, match=f"are one of {', '.join(values)}$"):
        UNKNOWN.check("other")
    assert [UNKNOWN.check(each) for each in values] == list(values)
