"""What an AWS account has and lacks for a deployment: `tidegate doctor --aws`.

    ask        every call, and what its answer is worth: found, absent, denied, unanswered
    buckets    quotas    catalog    parts    job      judgements: answers in, lines out; no call is made there
    examine    which calls, in which order

All calls read, but for the one that starts the self-test job. A call that is denied is a line that says which
permission it needs.
"""
