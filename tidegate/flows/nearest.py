"""Nearest: which keys that are known look like one that is not.

The ledger finds a claim by its object, and by nothing else. So only the files of the newest batches are compared: a few
reads, however much there is.
"""

from difflib import get_close_matches

from tidegate.flows.batch_list import BatchIds, Wanted
from tidegate.flows.files import WantedFiles, files_page
from tidegate.flows.ports import Ports

COMPARED = 200
"""Files, those of the newest batches first."""
MOST_READ = 20
"""Reads of the work bucket."""
NAMED = 3


def nearest(bucket: str, key: str, route: str, ports: Ports, ids: BatchIds) -> list[str]:
    """The keys nearest to `key`, the nearest first, among the newest files of the route; none if nothing is near."""
    wanted = WantedFiles(Wanted(route))
    page = files_page(ports, ids, wanted, limit=COMPARED, most_read=MOST_READ)
    keys = {each.upload.key for each in page.files if each.upload.bucket == bucket} - {key}
    return get_close_matches(key, sorted(keys), n=NAMED)
