"""What is true: identities, notices, batches, states, decisions. Standard library only, no I/O."""
