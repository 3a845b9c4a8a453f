"""What an AWS account has and lacks for a deployment: `tidegate doctor --aws`.

    ask        every call, and the kind of its answer: found, absent, denied, unanswered
    buckets    quotas    catalog    sources    parts    roles    job      judgements: answers in, lines out
    examine    which calls, in which order

All calls only read, except the one that starts the self-test job. A call that is denied becomes a line that names the
permission.
"""
