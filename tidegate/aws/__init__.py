"""How AWS is asked: one adapter for each port of `tidegate.flows.ports`."""
