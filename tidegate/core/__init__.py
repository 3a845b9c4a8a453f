"""The rules, without I/O: identities, notices, batches, states, decisions. Standard library only."""
