"""The planted mistakes, by what they are about; `simulation.checker.bugs` is their index."""
