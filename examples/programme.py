"""A programme from two CSV files: from its first import to the audit of four rounds.

It prints every command that an officer would type. Files and the audit's page go to the folder that
is named, or to out/programme/.
"""

import sys
from pathlib import Path

from softfair.demo import run_a_programme

if __name__ == "__main__":
    run_a_programme(Path(sys.argv[1] if len(sys.argv) > 1 else "out/programme"))
