"""What the emulated services hold outlives their process: it is in a SQLite file before a request is answered.

moto holds its state in memory. Here each request that changes it writes what it has changed to the file, in one
transaction, and is answered after that. At the start moto is filled from the file. Nothing is replayed, so what moto
would make anew stays as it was: version ids, message ids, receipt handles, times. Snapshots would lose what comes
between them. Spark does not wait for the disk: after a power cut the last batches may lack files.

    changes     what the request at hand has changed
    database    the file: transactions in the order of the changes, and what is read back
    pickled     moto's objects as bytes, and back
    keeper      all of it together: learn what changes, write it, fill moto at the start
"""
