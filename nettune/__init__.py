"""nettune: qualify, place, tune and prove the network of a GPU training cluster before the job runs on it.

Importing any part of nettune first checks that its sibling packages are its own (see `nettune._guard`).
"""

from __future__ import annotations

from nettune._guard import check_on_import

__version__ = "0.1.0"

check_on_import()
