"""The stack: one file per part of the path. Of Tidegate itself only `tidegate.settings` is imported."""
