"""Mutation testing: change the code a little, some thousand times, and see whether some test notices each time.

mutmut makes the changes and runs the tests (https://mutmut.readthedocs.io). What no test can notice, because no
behaviour differs, is listed in equivalent.toml. `make mutants` fails over anything else that survives.
"""
