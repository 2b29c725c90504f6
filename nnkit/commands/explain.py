"""`nnkit explain`: an error code looked up."""

from __future__ import annotations

from dataclasses import asdict

from nnkit.commands.common import print_json
from nnkit.did_you_mean import suggestion
from nnkit.error_codes import ERROR_CODES
from nnkit.errors import UsageError
from nnkit.installation import as_called
from nnkit.terminal import print_line


def explain_command(code: str | None, *, json: bool) -> None:
    """What a code means and what to do; all codes without one. Raises UsageError for an unknown one."""
    if code is None:
        if json:
            print_json([asdict(each) for each in ERROR_CODES.values()])
            return
        for each in ERROR_CODES.values():
            print_line(f"{each.code}  {each.title}")
        return
    wanted = code.upper() if code.upper().startswith("NK") else f"NK{code}"
    if wanted not in ERROR_CODES:
        raise UsageError(
            f"there is no error code {code!r}",
            where="CODE",
            remedy=suggestion(wanted, list(ERROR_CODES), "codes", listed="`nnkit explain`"),
        )
    entry = ERROR_CODES[wanted]
    if json:
        print_json(asdict(entry))
        return
    print_line(f"{entry.code}: {entry.title}")
    print_line(as_called(entry.meaning))
    for step in entry.steps:
        print_line(as_called(f"  - {step}"))
