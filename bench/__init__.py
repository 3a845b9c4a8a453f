"""What Tidegate costs in time, memory, requests and money, measured beside its peers: `make bench`.

A figure stands beside those of its peers from the same run, as a ratio. The rows of each run are checked: a fast wrong
answer fails the bench.
"""
