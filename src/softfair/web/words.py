"""Messages of the programme as a page says them: what to click, not what to type.

The functions that pages call are those of the commands, and so are their messages.
"""

from __future__ import annotations

import re

__all__ = ["capitalised", "on_page"]

# A pattern of what a message says for a command, and what a page says instead.
CLICKS = (
    (r"; if it is meant so, add --yes", ""),
    (r"import them with: softfair import people FILE", "import them under Import"),
    (r"(import a history) with: softfair import history FILE", r"\1 under Import"),
    (r"(import a history.* first) \(softfair import history FILE\)", r"\1, under Import"),
    (r"tell what happened with: softfair record FILE", "mark the list, or import a record"),
    (r"to leave it to others: softfair plan --commit", "to leave it to others, commit first"),
    (r"luck comes after a commitment: softfair plan --commit", "commit the plan first"),
    (r"make (one|a list) with: softfair plan\b", "draw the list first"),
    (r"(make it|commit it) anew with (--commit )?--replan REASON", r"give a reason to \1 anew"),
    (r"draw anew with: softfair plan --replan REASON", "draw the list anew, with a reason"),
    (r"draw it with --luck TEXT or --beacon FILE", "draw it with luck from outside"),
    (r"leave --replan out", "leave the reason to draw anew empty"),
    (r"say it, such as --(?:replan|reason) ('[^']*')", r"say it, such as \1"),
    (r"say why, such as --reason ('[^']*')", r"say why, such as \1"),
    (r"say --(?:target|promise) none, or --policy SoftFair", "leave one of the two empty"),
    (r" \(--(?:target|promise) wait=ROUNDS\)", ""),
    (r"plan with --promise none", "promise none"),
    (r"Record them, or close it with: softfair record --close --round \d+", "Mark them, or close"),
    (r"import people first, or add --add-people to history", "import people first, or tick enrol"),
    (r"to go back to what it says, add --again", "to take it, tick that it was taken before"),
    (r" \(--map tells otherwise\)", ""),
    (r"; mend --map", "; choose below what each column means"),
    (r"say (what a column is|which one it is|which column has the numbers),? (with --map, )?such as"
     r" --map \S+", "choose below what each column means"),
    (r"say what a column is with --map, such as --map .*", "choose below what each column means"),
    (r"if a column has them, say which: --map \S+ or --map \S+", "if a column has them, choose it"),
    (r"such as --threshold 4 or '<=3'", "such as 4 or <=3, under: good from"),
    (r"leave --threshold out, or .*", "leave it empty"),
    (r"say --dates day-first or --dates month-first", "choose under Dates which it is"),
    (r"take them as one with --twins together, keep them with --twins apart",
     "choose under Spellings whether they are one group or several"),
    (r"mend --sheet", "give another sheet"),
    (r"leave --round out, or mend the file", "leave the round empty, or mend the file"),
    (r"say which round this was, such as --round 21", "say which round this was, under Round"),
    (r"see where things stand with: softfair status", "see Home"),
    (r"see:? (all of them )?(with: )?softfair log", "see the Log"),
    (r"\(softfair log( shows them)?\)", "(see the Log)"),
    (r"see: softfair check", "see the Audit"),
    (r"see: softfair plan --all", "see the list with: also those who are not listed"),
)  # fmt: skip
# Commands without a page are left to the person who set the programme up.
TYPED = re.compile(r"[^;.:]*(?:: )?(?<![\w-])(?:--[a-z]|softfair [a-z]+)[^;]*")
ELSEWHERE = " ask who set the programme up"


def on_page(message: str) -> str:
    """A message without commands and options.

    Parameters
    ----------
    message
        Of a function of the programme.

    Returns
    -------
    str
        The same, with what to click, or whom to ask where there is nothing to click.
    """
    for typed, clicked in CLICKS:
        message = re.sub(typed, clicked, message)
    return TYPED.sub(ELSEWHERE, message).strip()


def capitalised(text: str) -> str:
    """A text whose first letter is a capital; the others stay."""
    return text[:1].upper() + text[1:]
