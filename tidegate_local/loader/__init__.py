"""Reads a synthesized template and creates what it says, through the public APIs of whatever endpoints it is given.

What cannot be created on this machine is not skipped in silence: a type of resource is created by the function that is
registered for it, or listed in `absent.py` with the reason, or an error. A property that is not applied is told in the
description's notes, unless `absent.py` has the reason why it means nothing here. Loading a second time changes nothing.

    assembly    what `cdk synth` wrote
    loading     one stack while it is created: who creates what, names, references, notes
    buckets    messages    tables    jobs    functions    rules    absent: the types of resources
"""

from tidegate_local.loader.assembly import Assembly, read_assembly
from tidegate_local.loader.load import load

__all__ = ["Assembly", "load", "read_assembly"]
