"""The stores of the ledger's items. A store decides nothing: it applies `tidegate.core.transitions`."""
