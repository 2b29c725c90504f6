"""What the user trusts: settings of their own, programs that may run, builds made here, folders of code."""

from nnkit.trust.bounds import (
    MOST_LAYERS_COUNTED,
    WINDOW_READS,
    WINDOW_VALUES,
    check_bound,
    check_layers,
    check_names,
)
from nnkit.trust.own_builds import made_here, mark_of_report
from nnkit.trust.private_folder import make_private, why_not_private
from nnkit.trust.programs import refuse_foreign_code, refuse_programs, refuse_sources_in_ci
from nnkit.trust.settings import TIME_VARIABLE, VALUES_VARIABLE, Settings, config_folder, user_settings

__all__ = [
    "MOST_LAYERS_COUNTED",
    "TIME_VARIABLE",
    "VALUES_VARIABLE",
    "WINDOW_READS",
    "WINDOW_VALUES",
    "Settings",
    "check_bound",
    "check_layers",
    "check_names",
    "config_folder",
    "made_here",
    "make_private",
    "mark_of_report",
    "refuse_foreign_code",
    "refuse_programs",
    "refuse_sources_in_ci",
    "user_settings",
    "why_not_private",
]
