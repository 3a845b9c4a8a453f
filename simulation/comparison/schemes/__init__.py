"""The schemes that people use against duplicates and losses, as their authors describe them, in one simulated AWS.

Each is one small module. They share `deployment` and `scheme`. `schedule` and `causes` define what happens, `trial`
runs them, and `verdict` judges all of them in the same way.
"""
