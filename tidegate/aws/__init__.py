"""AWS adapters: one for each port of `tidegate.flows.ports`."""
