"""How long tests wait for what must come.

A wait that ends late costs nothing when all is well; one that ends early fails a change that is
right, on a machine that was busy. What the product promises about time is not in here.
"""

DEADLINE_S = 60.0
"""After this many seconds something hangs. Less than pytest's own limit, which says less."""
