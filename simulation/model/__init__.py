"""Every interleaving of a few actors, exhausted: the flows themselves, step by step, over items in memory."""
