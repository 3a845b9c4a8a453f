"""What an AWS account has and lacks for a deployment: `tidegate doctor --aws`.

    ask                   every call, and the kind of its answer: found, absent, denied, unanswered
    examine               the checks, in the order in which to repair things
    buckets    access     the checks of buckets; of the key, the catalog and the subnets
    job                   the self-test: a real job, and its report

The checks are those that find what people get wrong. What a deployment makes and nobody touches has alarms.
All calls only read, except the one that starts the self-test job. A call that is denied becomes a line that names the
permission.
"""
