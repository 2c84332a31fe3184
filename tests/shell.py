"""Commands as real processes, without loading the same libraries for each of them.

One process loads them, and makes one plan, so that compiled functions are loaded too. Each command
is a fork of it, with its own words, folder, environment, input and output, and its exit code is the
command's.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

PARENT = """
import json, multiprocessing, os, sys, tempfile
import pandas, pyarrow.csv, rich.console, rich.table, scipy.special, sqlalchemy
import softfair.comparison, softfair.files, softfair.programme.audit, softfair.programme.plans
import softfair.programme.sample, softfair.theory
from softfair.cli import main
from softfair.programme import imports, plans, sample, settings, store

with tempfile.TemporaryDirectory() as folder:
    database = store.Store(folder + "/softfair.db")
    settings.initialise(database, "nobody", seed=0)
    imports.import_people(database, sample.people_file(), "nobody")
    imports.import_history(database, sample.history_file(), "nobody")
    plans.make_plan(database, "nobody")
    database.engine.dispose()

def command(words, folder, environment, stdin, stdout, stderr):
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, (file, flags) in enumerate(
        [(stdin, os.O_RDONLY), (stdout, os.O_WRONLY), (stderr, os.O_WRONLY)]
    ):
        handle = os.open(file, flags)
        os.dup2(handle, number)
        os.close(handle)
    sys.argv = ["softfair", *words]
    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        import traceback
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    for worker in multiprocessing.active_children():  # which a process that ends would end
        worker.terminate()
    os._exit(code)

for line in sys.stdin:
    child = os.fork()
    if not child:
        command(**json.loads(line))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@cache
def _parent() -> subprocess.Popen[str]:
    started = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(started.kill)
    return started


def run(
    *words: object, folder: Path | None = None, text: str | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run ``softfair`` with these words, as `subprocess.run` would."""
    parent = _parent()
    with tempfile.TemporaryDirectory() as scratch:
        files = {name: Path(scratch) / name for name in ("stdin", "stdout", "stderr")}
        for file in files.values():
            file.touch()
        files["stdin"].write_text(text or "", encoding="utf-8")
        request = {
            "words": [str(word) for word in words],
            "folder": str(folder or Path.cwd()),
            "environment": {**os.environ, **environment},
            **{name: str(file) for name, file in files.items()},
        }
        parent.stdin.write(json.dumps(request) + "\n")
        parent.stdin.flush()
        code = int(parent.stdout.readline())
        said, complained = (
            files[name].read_text(encoding="utf-8") for name in ("stdout", "stderr")
        )
    return subprocess.CompletedProcess(list(request["words"]), code, said, complained)
