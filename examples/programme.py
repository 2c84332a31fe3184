"""A programme from its first import to the audit of four rounds, by the commands of an officer.

Run with ``make demo``; files and the audit's page go to out/programme/, or to the folder that is
named.
"""

import os
import subprocess
import sys
from pathlib import Path

from softfair.programme import sample


def type_in(folder: Path, *words: str, shown: bool = True) -> None:
    """Run a command in the folder as if it were typed there."""
    print(f"\n$ softfair {' '.join(words)}", flush=True)
    command = [sys.executable, "-c", "from softfair.cli import main; main()", *words]
    subprocess.run(command, cwd=folder, check=True, stdout=None if shown else subprocess.DEVNULL)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "out/programme")
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("softfair.db*"):
        os.remove(old)
    (folder / "people.csv").write_bytes(sample.people_file())
    (folder / "history.csv").write_bytes(sample.history_file())
    type_in(
        folder,
        "init",
        "--capacity",
        "12",
        "--target",
        "benefit=80%",
        "--cooldown",
        "1",
        "--seed",
        "0",
    )
    type_in(folder, "import", "people", "people.csv")
    type_in(folder, "import", "history", "history.csv")
    type_in(folder, "fit")
    for shown in (True, False, False, False):
        type_in(folder, "plan", shown=shown)
        type_in(folder, "record", "--sample")
    type_in(folder, "plan", "--verify")
    type_in(folder, "audit", "--html", "audit.html")


if __name__ == "__main__":
    main()
