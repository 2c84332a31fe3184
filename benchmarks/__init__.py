"""How fast, as ratios within one run to the physical floor and to what a user would otherwise pick.

Run with ``make bench``.
"""
