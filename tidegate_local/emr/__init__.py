"""An EMR Serverless endpoint whose `StartJobRun` runs the real `spark-submit` on this machine.

    python -m tidegate_local.emr --dir DIR

It speaks the REST-JSON of https://docs.aws.amazon.com/emr-serverless/latest/APIReference/ as far as the product uses
it, and refuses what it would have to ignore. A job run is a session of its own with its logs in DIR/jobs/<id>.

    runs       what an application and a job run are: no I/O
    submit     a job run as a `spark-submit` of this machine: its command, its environment, its end
    sharing    the archive of Java classes with which a job begins sooner
    records    what is remembered over a restart
    service    the runs there are, and the threads that run them
    api        what is asked and answered over HTTP
"""
