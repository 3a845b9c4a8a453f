"""The command line: verbs in `main` and `local`, what they look like in `render` and `json_output`."""
