# SPDX-License-Identifier: Apache-2.0
"""The live table of ``flyring top``, with the library textual (the extra ``top``)."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Input, Static

from ..errors import FlyringError
from .monitor import TICK
from .top import CURVE_HEIGHT, SORTS, arranged, laid_out, opened_curve, recent, summary
from .top_curve import BeatCurve
from .top_model import Model, title
from .top_row import Row

EVENTS = 5
PLAIN, TITLE, ALARM, CHOSEN = (
    Style(),
    Style(bold=True, underline=True),
    Style(bold=True, color="red"),
    Style(reverse=True),
)
ASKING = "only lines with this text; enter ends, escape shows all"
KEYS = "q quit  s sort  / filter  enter open  p percentiles of its heartbeats  escape back"


class Lines(ScrollView, can_focus=True):
    """The table. It draws the lines that are visible, and no others."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "move(-20)", show=False),
        Binding("pagedown", "move(20)", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, Row | None]] = []
        self.chosen = 1

    def show(self, lines: list[tuple[str, Row | None]]) -> None:
        self.lines = lines
        self.chosen = max(1, min(self.chosen, len(lines) - 1))
        self.virtual_size = Size(self.size.width, len(lines))
        self.refresh()

    def action_move(self, by: int) -> None:
        self.chosen = max(1, min(self.chosen + by, len(self.lines) - 1))
        top, height = int(self.scroll_y), self.size.height
        if not top + 1 <= self.chosen < top + height:
            self.scroll_to(y=max(0, self.chosen - height // 2), animate=False)
        self.refresh()

    def row(self) -> Row | None:
        return self.lines[self.chosen][1] if self.chosen < len(self.lines) else None

    def render_line(self, y: int) -> Strip:
        number = y + int(self.scroll_y) if y else 0  # the titles stay
        if number >= len(self.lines):
            return Strip.blank(self.size.width)
        text, row = self.lines[number]
        style = TITLE if number == 0 else ALARM if row is not None and row.alarm else PLAIN
        if number == self.chosen:
            style += CHOSEN
        return Strip([Segment(text, style)]).adjust_cell_length(
            self.size.width, style if number == self.chosen else None
        )


class Top(App[None]):
    """``flyring top`` in a terminal."""

    CSS = """
    Screen { layout: vertical; }
    #summary { height: 1; text-style: bold; }
    Lines { height: 1fr; }
    #events { height: auto; max-height: 5; }
    #curve { height: auto; }
    #keys { height: 1; color: $text-muted; }
    Input { height: 1; border: none; }
    Lines { scrollbar-size-vertical: 1; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("s", "sort", "sort"),
        Binding("slash", "ask", "filter"),
        Binding("enter", "open", "open"),
        Binding("p", "curve", "percentiles"),
        Binding("escape", "leave", "back", priority=True),
    ]

    def __init__(self, model: Model, interval: float, sort: str, only: str, curve: bool = False) -> None:
        super().__init__()
        self.model, self.interval, self.sort, self.only = model, interval, sort, only
        self.channel = ""
        self.beats: BeatCurve | None = None
        self.problem = ""
        if curve and model.name is not None:
            self.beats = opened_curve(model.name)

    def compose(self) -> ComposeResult:
        yield Static("", id="summary", markup=False)
        yield Lines()
        yield Static("", id="curve", markup=False)
        yield Static("", id="events", markup=False)
        yield Input()
        yield Static(KEYS, id="keys", markup=False)

    def on_mount(self) -> None:
        self._put_away()
        self.look()
        self.set_interval(self.interval, self.look)
        self.set_interval(TICK, self.glance)

    def on_unmount(self) -> None:
        self._end_curve()

    def glance(self) -> None:
        if self.beats is not None:
            self.beats.glance()

    def look(self) -> None:
        self.model.look()
        self.draw()

    def draw(self) -> None:
        rows = [row for row in self.model.rows() if not self.channel or row.channel == self.channel]
        rows = arranged(rows, self.sort, self.only)
        text = f"{summary(self.model)}  sort {self.sort}"
        text += f"  filter {self.only}" if self.only else ""
        text += f"  channel {self.channel}" if self.channel else ""
        self.query_one("#summary", Static).update(text)
        self.query_one(Lines).show(laid_out(rows, self.size.width - 1))  # and a scroll bar
        curve = [self.problem] if self.problem else []
        if self.beats is not None:
            curve = self.beats.lines(self.size.width, CURVE_HEIGHT)
        self.query_one("#curve", Static).update("\n".join(curve))
        self.query_one("#curve", Static).display = bool(curve)
        self.query_one("#events", Static).update("\n".join(recent(self.model)[-EVENTS:]))

    def on_resize(self) -> None:
        self.draw()

    def action_sort(self) -> None:
        self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
        self.draw()

    def action_ask(self) -> None:
        box = self.query_one(Input)
        box.display = True
        box.value = self.only
        self.query_one("#keys", Static).update(ASKING)
        box.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input.display:
            self.only = event.value
            self.draw()

    def on_input_submitted(self) -> None:
        self._put_away()

    def action_open(self) -> None:
        row = self.query_one(Lines).row()
        if row is not None:
            self.channel = row.channel
            self.draw()

    def action_curve(self) -> None:
        """Opens the channel of the chosen line, with its curve, or puts the curve away."""
        row = self.query_one(Lines).row()
        if self.beats is not None or self.problem or row is None:
            self._end_curve()
        else:
            self.channel = row.channel
            paths = [path for path in self.model.seen if title(path) == row.channel]
            if not paths:  # a table: it has no heartbeats
                return
            (path,) = paths
            try:
                self.beats = opened_curve(path)
            except (FlyringError, OSError) as error:  # it has just gone
                self.problem = str(error)
        self.draw()

    def _end_curve(self) -> None:
        if self.beats is not None:
            self.beats.close()
        self.beats, self.problem = None, ""

    def action_leave(self) -> None:
        self._end_curve()
        self.only = self.channel = ""
        self._put_away()
        self.draw()

    def _put_away(self) -> None:
        self.query_one(Input).display = False
        self.query_one("#keys", Static).update(KEYS)
        self.query_one(Lines).focus()


def show(model: Model, interval: float, sort: str, only: str, curve: bool) -> None:
    """Runs until the user quits."""
    Top(model, interval, sort, only, curve).run()
