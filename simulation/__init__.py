"""A simulation of the whole path. The product runs in a `world`, the `checker` tries and judges it, and `comparison`
compares it with the schemes that people use. Imports point one way: world <- checker <- comparison.
"""
