"""Real faults: `kill -9` of real processes of the local stack while uploads arrive, and then the sums.

The simulation (simulation/) decides where its faults fall and can try them all; here nobody does. What breaks here and
holds there is a mistake in the simulation's picture of the world, or in what lies below it: sockets, Spark, the JVM.
"""
