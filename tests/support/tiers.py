"""Which tests `make test` leaves to `make test-all`: what takes long and shows more of what a shorter one shows.

`make test` is what a contributor waits for. It has every layer: each module by itself, the flows on memory and on
DynamoDB Local, the main stories on a real Spark and Iceberg, the functions in Lambda's emulator, the template, the
scenarios of the simulation, and a stack whose functions and job are killed.
"""

LONG = (
    *("tests/bench/", "tests/browser/", "tests/chaos/", "tests/conformance/", "tests/e2e/", "tests/spark/"),
    "tests/rie/test_killed.py",
    "tests/simulation/test_dictionary.py::test_the_table_is_a_dictionary_of_the_last_versions",
    *("tests/simulation/test_bugs.py", "tests/simulation/test_counting.py", "tests/simulation/test_model.py"),
    *("tests/simulation/test_purge.py", "tests/simulation/test_roads.py", "tests/simulation/test_traffic.py"),
    "tests/simulation/test_simulation.py::test_faults_at_every_call_of_the_core_scenarios_are_recovered_from",
    "tests/simulation/test_simulation.py::test_schedules_by_chance_break_no_promise",
    "tests/simulation/test_simulation.py::test_the_command_line_runs_what_it_says_and_ends_well",
    "tests/simulation/test_simulation.py::test_what_",
    "tests/simulation/test_simulation.py::test_whatever_",
    *("tests/infra/test_app.py", "tests/infra/test_budgets.py", "tests/infra/test_bundling.py"),
    *("tests/infra/test_deploy.py", "tests/infra/test_deployer.py"),
    *("tests/infra/test_doctor.py", "tests/infra/test_landing.py", "tests/infra/test_ledger_page.py"),
    *("tests/infra/test_lint.py", "tests/infra/test_reallife.py", "tests/infra/test_scale.py"),
    *("tests/functional/test_local_containers.py", "tests/functional/test_local_durable.py"),
    *("tests/functional/test_local_emr.py", "tests/functional/test_local_mends.py"),
    *("tests/functional/test_local_stack.py", "tests/functional/test_local_template.py"),
    *("tests/functional/test_querying_page.py", "tests/functional/test_runbook.py"),
    "tests/functional/test_backfill.py::test_an_upload_that_moves_on_while_it_is_looked_for_lands_once",
    "tests/unit/test_added.py::test_nothing_is_lost_of_thousands_",
    "tests/unit/test_careful.py",
    "tests/unit/test_json_layout.py::test_what_is_no_array_of_objects_is_refused_and_nothing_else",
    "tests/unit/test_kept.py::test_no_value_is_lost_of_thousands_",
)
"""How the ids of such tests begin."""

NONETHELESS = (
    "tests/e2e/test_path.py::test_killed_functions_and_a_killed_job_change_nothing",
    *("tests/spark/test_ingest.py", "tests/spark/test_refused.py"),
    "tests/spark/test_replace.py::test_a_corrected_file_takes_the_place_of_the_first",
    "tests/spark/test_rejected.py::test_a_table_that_was_dropped_in_between_gets_them_anew",
    "tests/spark/test_publish.py::test_a_batch_is_published_once_and_a_second_attempt_only_finds_it",
    "tests/spark/test_publish.py::test_a_worker_that_is_killed_at_its_third_batch_loses_none_of_the_three",
    "tests/spark/test_publish.py::test_a_zombie_that_wakes_after_the_fence_publishes_nothing",
    "tests/spark/test_publish.py::test_a_fence_that_comes_too_late_reports_the_rows_as_published",
    "tests/simulation/test_bugs.py::test_every_mistake_finds_the_place_where_it_is_planted",
    "tests/simulation/test_model.py::test_a_broken_rule_is_noticed[given up in any state]",
)
"""How the ids of those begin that `make test` runs all the same."""


def is_long(test: str) -> bool:
    return test.startswith(LONG) and not test.startswith(NONETHELESS)
