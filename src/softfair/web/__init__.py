"""The programme in a browser: `softfair serve`, for people who never use a shell.

Pages and the API call the functions that the commands call; there is no logic of a programme here.
The modules, the lowest first; each imports only modules that stand before it in this list:

    accounts   who may use the pages and the API: accounts, roles, visits, tokens
    work       long work: in a thread of its own, with reports until it is done
    memory     results for one moment of the database, kept until the database changes
    access     what a request must show before it is answered; every route says who may use it
    words      messages of the programme, with what to click instead of what to type
    lists      the list of a round as rows that can be sorted, filtered and grouped
    deeds      what a tap or a form does: marks, corrections, opting out, imports
    anchors    solutions at some places of the sliders, which make all others fast to find
    tradeoff   what fairness costs, for any c, weight of evenness and promise
    uploads    files between upload and import
    pages      the pages
    api        the same verbs in JSON
    app        the application
    commands   `softfair user` and `softfair serve`
"""
