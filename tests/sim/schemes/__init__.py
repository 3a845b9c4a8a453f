"""The schemes that people use against duplicates and losses, as their authors describe them, in one simulated AWS.

Each is one small module. `deployment` and `scheme` are what they share, `schedule` and `causes` what happens to them,
`trial` runs them, `verdict` judges them all alike.
"""
