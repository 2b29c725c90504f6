"""What is wrong with a command line, in the form of all other errors, where the parser behind Typer refuses it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from nnkit.did_you_mean import nearest, suggestion
from nnkit.errors import UsageError

_OTHER_WORDS: Mapping[str, str] = MappingProxyType(
    {"build": "run", "compile": "run", "convert": "run", "quantize": "run", "deploy": "run", "new": "init"}
    | {"benchmark": "bench", "diff": "compare", "eval": "evaluate", "install": "doctor"}
)
"""Words of other tools, and the command that does it here."""


def is_usage_error(error: BaseException) -> bool:
    """Whether the parser refused the command line."""
    return hasattr(error, "format_message") and hasattr(error, "exit_code")


def usage_error(error: Any) -> UsageError:
    """The same in nnkit's words, with what to write instead."""
    context = getattr(error, "ctx", None)
    kind, message = type(error).__name__, str(error.message).replace("Value error, ", "")
    unknown = re.match(r"No such command '(.*?)'\.", message, re.DOTALL)
    if unknown is not None and context is not None:
        return unknown_command(unknown[1], list(getattr(context.command, "commands", {})))
    if kind == "NoSuchOption":
        known = [name.lstrip("-") for each in context.command.params for name in each.opts] if context else []
        match = nearest(error.option_name.lstrip("-"), known)
        question = f"did you mean '--{match}'? " if match else ""
        return UsageError(f"there is no option {error.option_name}", remedy=f"{question}{_usage(context)}".strip())
    param = getattr(error, "param", None)
    name = "" if param is None else _name(param)
    if kind == "MissingParameter":
        value = getattr(param, "metavar", None) or name.lstrip("-").upper()
        option = f"{name} {value} " if name.startswith("-") else ""
        return UsageError(f"{name} is missing", remedy=_usage(context, option))
    if kind == "BadParameter":
        return UsageError(_in_plain_words(message), where=name, remedy=_usage(context))
    if kind == "BadOptionUsage":
        remedy = "leave the value out" if "does not take" in message else f"write {error.option_name} VALUE"
        return UsageError(f"{message[:1].lower()}{message[1:].removesuffix('.')}", remedy=remedy)
    extra = re.match(r"Got unexpected extra argument\(?s?\)? \((.*)\)", message, re.DOTALL)
    reason = f"{extra[1]}: not expected here" if extra else f"{message[:1].lower()}{message[1:].removesuffix('.')}"
    return UsageError(reason, remedy=_usage(context))


def _in_plain_words(message: str) -> str:
    """What is wrong with a value; of numbers the parser's library behind Typer has words of its own."""
    if message.startswith("Input should be a valid integer"):
        return "this is not a whole number"
    return "this is not a number" if message.startswith("Input should be a valid number") else message


def unknown_command(word: str, known: list[str]) -> UsageError:
    """There is no such command; the one that is probably meant."""
    match = nearest(word, [*known, *(each for each in _OTHER_WORDS if _OTHER_WORDS[each] in known)])
    does = _OTHER_WORDS.get(match or "")
    if does in known and match not in known:
        remedy = f"`nnkit {does}` does it" if word == match else f"did you mean '{match}'? `nnkit {does}` does that"
    else:
        remedy = suggestion(word, known, "commands", listed="`nnkit -h`")
    return UsageError(f"there is no command {word!r}", remedy=remedy)


def _name(param: Any) -> str:
    """An option's long name, an argument's as the usage has it."""
    if param.param_type_name == "option":
        return str(max(param.opts, key=len))
    return str(param.metavar or param.name).removesuffix("...")


def _usage(context: Any, option: str = "") -> str:
    """How the command is written, with an option that it must have, and what lists its options."""
    if context is None:
        return "`nnkit -h` shows all commands"
    pieces = " ".join(context.command.collect_usage_pieces(context))
    pieces = pieces.replace("[OPTIONS]", f"{option}[OPTIONS]")
    return f"write {context.command_path} {pieces}; `{context.command_path} -h` lists its options"
