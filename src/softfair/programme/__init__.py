"""A programme, week after week: import, fit, plan, record, audit, on a database.

The modules from bottom to top; each imports only those above it in this list:

    store         the tables of the database, and how they are read and written
    settings      what a programme is, and the targets that c may be chosen for
    entries       one entry of a file: from text to a number
    reading       a file: from bytes to a checked table
    snapshot      people, history and settings as they are at one moment
    batches       what imports and records have in common
    imports       people and history from files
    records       what happened in a round
    models        transition probabilities: estimated, stored, loaded
    eligibility   who takes part in the draw of a round, where, and in which state
    outlook       what a plan is expected to bring, and the c that meets a target
    plans         the plan of a round: made, stored, loaded, replayed, explained
    tables        exported tables
    sample        a made-up programme
    audit         how a programme was run
    commands      all of it on the command line
"""
