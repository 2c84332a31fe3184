"""A programme, week after week: import, fit, plan, record, audit, on a database."""
