"""The command line: verbs in `main` and `ledger`, their output in `render` and `json_output`."""
