"""The log of a database: one entry for each transaction, and a head that stands for all of them.

Tables only grow, each by one column (`grows_by`): its number, or the number of the batch, model,
plan or trial that a row came with. When a transaction ends, `seal` adds an entry: for each table
that grew, how far it grew, how many rows came and the SHA-256 of their content. The entries are the
leaves of a Merkle tree as in RFC 6962. The head of the log is called a checkpoint. It is a few
lines of text in the format of C2SP (tlog-checkpoint, and signed-note if it is signed):

    softfair/<hash of the programme's seed>
    <number of entries>
    <root of the tree, base64>
    tables <name>:<first digits of the digest of all that the log says of it> ...

Whoever keeps such a text can check later that the database still holds what it held then
(`compare`), even if all entries have been rewritten since. Each entry has a salt. Without it,
somebody could try possible contents of a table until the head agrees, and so learn what the table
holds.

A new table joins the log without further work, if `grows_by` can find its column.

    entries      the table of entries, and the column by which each table grows
    rows         rows of a table: read, put in the order of the key, digested
    sealing      the entry at the end of a transaction
    comparing    the rows of all tables against the entries
    checkpoints  the Merkle tree of the entries, and its head
"""

from .checkpoints import Checkpoint, checkpoint_of, compare
from .comparing import Columns, Watch, faults_of
from .entries import Entry, entries_of, grows_by, link_table
from .sealing import seal

__all__ = [
    "Checkpoint",
    "Columns",
    "Entry",
    "Watch",
    "checkpoint_of",
    "compare",
    "entries_of",
    "faults_of",
    "grows_by",
    "link_table",
    "seal",
]
