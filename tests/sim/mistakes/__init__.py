"""The planted mistakes, by what they are about; `tests.sim.bugs` is their index."""
