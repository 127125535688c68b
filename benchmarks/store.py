"""Recording, finding, reading and showing trees: turns a second, size, seconds until a list, a tree and its tokens are there.

python -m benchmarks.store [--quick] [--out FILE.json]
"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.report import INTERRUPTED, arguments, report
from benchmarks.traces.page_rows import page_rows
from benchmarks.traces.store_rows import find_rows, record_rows


def main(given: Sequence[str] | None = None) -> int:
    """Measure and print the table."""
    options = arguments(__doc__ or "", given)
    quick = options.quick
    with tempfile.TemporaryDirectory(prefix="branchwise-store-") as name:
        folder = Path(name)
        rows = list(record_rows(folder, trees=24 if quick else 144, batches=3 if quick else 7))
        rows += find_rows(folder, trees=2_000 if quick else 100_000, turns=10)
        rows += page_rows(folder, nodes=1_000 if quick else 5_000, trees=2_000 if quick else 100_000, tokens=20_000 if quick else 100_000)
    report("store", rows, quick=quick, out=options.out)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
