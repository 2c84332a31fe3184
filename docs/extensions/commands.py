"""The directive `commands`: every command of the program, as the program itself describes it."""

from __future__ import annotations

import re

import typer.main
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from softfair.cli import app as program

SPACE = re.compile(r"\s+")
CODE = re.compile(r"`([^`]+)`")


def _text(paragraph: str) -> list[nodes.Node]:
    """The text of a paragraph; words between backticks become code."""
    parts = CODE.split(SPACE.sub(" ", paragraph.strip()))
    return [
        nodes.literal(text=part) if number % 2 else nodes.Text(part)
        for number, part in enumerate(parts)
    ]


class Commands(SphinxDirective):
    """A section for each command: what it does, its usage, its arguments and its options."""

    def run(self) -> list[nodes.Node]:
        """The sections, in the order of `softfair --help`."""
        group = typer.main.get_command(program)
        return [self._section(name, command) for name, command in group.commands.items()]

    def _section(self, name: str, command: typer.core.TyperCommand) -> nodes.section:
        context = command.make_context(name, [], resilient_parsing=True)
        section = nodes.section(ids=[nodes.make_id(f"softfair-{name}")], names=[f"softfair {name}"])
        self.state.document.note_explicit_target(section)
        section += nodes.title("", "", nodes.literal(text=f"softfair {name}"))
        section += nodes.paragraph("", "", *_text(command.help or ""))
        usage = " ".join(["softfair", name, *command.collect_usage_pieces(context)])
        section += nodes.literal_block(usage, usage, language="text")
        options = nodes.definition_list(classes=["options"])
        for param in command.get_params(context):
            if (record := param.get_help_record(context)) is None:
                continue  # hidden
            term = nodes.term("", "", nodes.literal(text=record[0]))
            meaning = nodes.definition("", nodes.paragraph("", "", *_text(record[1])))
            options += nodes.definition_list_item("", term, meaning)
        section += options
        lines = [line for line in (command.epilog or "").split("\n\n") if line]
        if lines:
            section += nodes.paragraph(text=lines[0])
            examples = "\n".join(lines[1:])
            section += nodes.literal_block(examples, examples, language="sh")
        return section


def setup(app: Sphinx) -> dict[str, bool]:
    """Make the directive known to Sphinx."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
