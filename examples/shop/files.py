"""Files for the three routes of this example: the same ones each time.

python examples/shop/files.py FOLDER
"""

import csv
import datetime
import gzip
import io
import json
import random
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

FIRST = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)
CITIES = ("Porto", "Braga", "Faro", "Évora")
ORDERS, CUSTOMERS, CLICKS = 500, 120, 3_000


def files(seed: int = 7) -> Iterator[tuple[str, bytes]]:
    """The key of each file, and what is in it."""
    drawn = random.Random(seed)
    for day in range(3):
        yield f"orders/{(FIRST + datetime.timedelta(days=day)):%Y/%m/%d}.json.gz", orders(drawn, day)
    yield "customers/2026-03.csv", customers(drawn)
    for hour in (9, 10):
        yield f"clicks/2026-03-01-{hour:02}.parquet", clicks(drawn, hour)


def orders(drawn: random.Random, day: int) -> bytes:
    lines = []
    for number in range(ORDERS):
        bought = [
            {
                "sku": f"S{drawn.randrange(90):03}",
                "count": drawn.randint(1, 4),
                "price": f"{drawn.randrange(100, 9_999) / 100:.2f}",
            }
            for _ in range(drawn.randint(1, 5))
        ]
        total = sum(int(each["count"]) * Decimal(str(each["price"])) for each in bought)
        order = {
            "id": day * ORDERS + number,
            "customer": drawn.randrange(CUSTOMERS),
            "placed_at": (FIRST + datetime.timedelta(days=day, seconds=drawn.randrange(86_400))).isoformat(),
            "total": str(total),
            "lines": bought,
            "address": {
                "street": f"{drawn.randrange(1, 99)} High Street",
                "city": drawn.choice(CITIES),
                "country": "PT",
            },
            "notes": {"gift": "yes"} if drawn.random() < 0.1 else {},
        }
        lines.append(json.dumps(order))
    return gzip.compress("\n".join(lines).encode() + b"\n", mtime=0)


def customers(drawn: random.Random) -> bytes:
    text = io.StringIO()
    out = csv.writer(text, delimiter=";", lineterminator="\r\n")
    out.writerow(["id", "name", "born", "remarks"])
    for number in range(CUSTOMERS):
        born = datetime.date(1950, 1, 1) + datetime.timedelta(days=drawn.randrange(20_000))
        remarks = 'rings twice;\nsays "hello"' if number % 10 == 0 else ""
        out.writerow([number, f"Customer {number}", born.isoformat(), remarks])
    return text.getvalue().encode()


def clicks(drawn: random.Random, hour: int) -> bytes:
    at = [FIRST + datetime.timedelta(hours=hour, milliseconds=drawn.randrange(3_600_000)) for _ in range(CLICKS)]
    table = pa.table(
        {
            "at": pa.array(at, pa.timestamp("us", tz="UTC")),
            "visitor": [f"v{drawn.randrange(400)}" for _ in at],
            "page": [drawn.choice(("/", "/cart", "/pay", "/help")) for _ in at],
            "milliseconds": pa.array([drawn.randrange(5, 900) for _ in at], pa.int32()),
        }
    )
    body = io.BytesIO()
    pq.write_table(table, body, row_group_size=1_000)
    return body.getvalue()


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    for key, body in files():
        path = Path(arguments[0]) / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
