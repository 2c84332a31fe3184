"""A programme, week after week: import, fit, plan, record, audit, on a database.

The modules from bottom to top; each imports only those above it in this list:

    words         how figures are written in sentences
    bulk          many rows at a time, by the fastest way of each driver
    chain         the log of all tables, and the head that stands for it
    schema        the tables of the database
    addresses     what the address of a database may be
    connecting    how a driver connects, waits for its turn, and says what is wrong
    store         transactions of the database, and who signs what is written
    entries       one entry of a file: from text to a number
    tracks        the history in force, kept round by round
    retractions   imports and records that are no longer in force
    dates         what a date's entry means, and which round a day is in
    luck          where the random numbers of a draw come from
    commitments   what is fixed before the luck of a draw is known, and luck that comes later
    promises      what holds in every draw for certain
    aims          the target that c is chosen for, and what makes help more even
    settings      what a programme is
    columns       which column of a file is which one here
    formats       CSV, Excel and Parquet: from bytes to columns of text
    reading       a file: from bytes to a checked table
    calls         calls from the reserve, and people taken off a list
    rounds        which rounds are over
    assignment    the arms of a trial, and who is in which
    snapshot      people, history and settings as they are at one moment
    groups        spellings of a group
    batches       the entries of one file, written all or not at all, and once
    meanings      states, rounds and contacts of a file's rows
    matching      the persons whom a file's identifiers name
    news          observations that are new, or differ from what is known
    imports       people and history from files
    records       what happened in a round
    thresholds    states made anew from values
    ordering      whether states were seen before the contacts of their round
    models        transition probabilities: estimated, stored, loaded
    eligibility   who takes part in the draw of a round, where, and in which state
    outlook       what a plan is expected to bring, and the c that meets a target
    plans         the plan of a round: made, stored, loaded, replayed, explained
    replacing     whom to call, or take off, when a list changes
    changes       what has changed since a plan was made
    tables        exported tables
    worksheets    a plan's list, a file for each worker
    standing      where a programme stands
    journal       who did what, and every change of the settings
    biography     everything about one person
    backup        a copy of the whole programme
    sample        a made-up programme
    effects       the effect of one arm of a trial against another
    power         what is known before a trial, and which effects it can detect
    notes         signed notes
    checks        every table against the log, and every draw replayed
    trials        a trial: who is in it, the assignment, at once or after a commitment
    audit         how a programme was run
    telling       which column about people matters for what
    commands      all of it on the command line
"""
