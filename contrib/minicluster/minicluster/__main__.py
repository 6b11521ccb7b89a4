"""`python3 -m minicluster`."""

from __future__ import annotations

import sys

from minicluster.cli import main

sys.exit(main())
