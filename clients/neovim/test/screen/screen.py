"""A Neovim whose screen a test reads: text and colours of every cell, and pictures of it.

Owns the grid that ``nvim --embed`` draws. Waits have a deadline; what is asserted is the screen."""

import html
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pynvim

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_SECONDS = 60.0
SETTINGS = (
    "set statusline=%{&filetype} noswapfile shortmess+=F noshowmode noruler laststatus=0"
    " nomore termguicolors"
)
FONTS = "ui-monospace, DejaVu Sans Mono, Menlo, Consolas, monospace"


class Screen:
    """One Neovim, and what it shows. Rows and columns count from 0."""

    def __init__(
        self, nvim: str, width: int = 100, height: int = 30, background: str = "dark"
    ) -> None:
        argv = [nvim, "--embed", "-u", "NONE", "-i", "NONE", "-n"]
        argv += ["--cmd", f"set rtp^={ROOT} | {SETTINGS} background={background}"]
        self.nvim = pynvim.attach("child", argv=argv)
        self._clear(width, height)
        self._highlights: dict[int, dict[str, Any]] = {0: {}}
        self._colours = {"foreground": 0xFFFFFF, "background": 0}
        self.nvim.ui_attach(width, height, rgb=True, ext_linegrid=True)
        self.nvim.command("runtime plugin/pi.lua | filetype on")

    def _clear(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.cells = [[(" ", 0)] * width for _ in range(height)]
        self.cursor = (0, 0)

    # What Neovim draws

    def _redraw(self, events: Sequence[Any]) -> None:
        for name, *calls in events:
            handle = getattr(self, f"_on_{name}", None)
            for arguments in calls:
                if handle is not None:
                    handle(*arguments)

    def _on_grid_resize(self, _grid: int, width: int, height: int) -> None:
        self._clear(width, height)

    def _on_grid_clear(self, _grid: int) -> None:
        self._clear(self.width, self.height)

    def _on_grid_cursor_goto(self, _grid: int, row: int, column: int) -> None:
        self.cursor = (row, column)

    def _on_default_colors_set(self, foreground: int, background: int, *_rest: Any) -> None:
        self._colours = {"foreground": foreground, "background": background}

    def _on_hl_attr_define(self, number: int, rgb: dict[str, Any], *_rest: Any) -> None:
        self._highlights[number] = rgb

    def _on_grid_line(
        self, _grid: int, row: int, column: int, cells: Sequence[Any], *_rest: Any
    ) -> None:
        highlight = 0
        for text, *more in cells:
            highlight = more[0] if more else highlight
            for _ in range(more[1] if len(more) > 1 else 1):
                self.cells[row][column] = (text, highlight)
                column += 1

    def _on_grid_scroll(
        self, _grid: int, top: int, bottom: int, left: int, right: int, rows: int, _columns: int
    ) -> None:
        order = range(top, bottom - rows) if rows > 0 else range(bottom - 1, top - rows - 1, -1)
        for row in order:
            self.cells[row][left:right] = self.cells[row + rows][left:right]

    # What a test does

    def update(self) -> None:
        """Take in what was drawn until now."""
        if not self.nvim.api.get_mode()["blocking"]:
            self.nvim.command("redraw")
        # What was drawn came before the answer to this.
        self.nvim.api.get_mode()
        # Its library hands out one at a time, or waits for one: what has come is looked at here.
        pending, session = [], self.nvim._session
        while session._pending_messages:
            pending.append(session.next_message())
        for _kind, name, arguments in pending:
            if name == "redraw":
                self._redraw(arguments)

    def rows(self) -> list[str]:
        return ["".join(text for text, _ in row).rstrip() for row in self.cells]

    def text(self) -> str:
        return "\n".join(self.rows())

    def wait(self, what: str, done: Callable[[str], Any]) -> str:
        """Until the screen is as wanted; its text."""
        end = time.monotonic() + DEADLINE_SECONDS
        while True:
            self.update()
            text = self.text()
            if done(text):
                return text
            if time.monotonic() > end:
                raise AssertionError(f"the screen never showed {what}:\n{text}")
            if self.nvim.api.get_mode()["blocking"]:
                time.sleep(0.02)
            else:
                self.nvim.exec_lua("vim.wait(15)")

    def wait_for(self, pattern: str) -> str:
        return self.wait(pattern, lambda text: re.search(pattern, text, re.MULTILINE))

    def wait_until(self, code: str) -> None:
        """Until some Lua returns something true."""
        self.wait(code, lambda _text: self.nvim.exec_lua(code))

    def lua(self, code: str, *arguments: Any) -> Any:
        return self.nvim.exec_lua(code, *arguments)

    def type(self, keys: str) -> None:
        self.nvim.input(keys)

    def colour_of(self, words: str) -> str:
        """The colour of the first letter of some words on the screen, as ``#rrggbb``."""
        self.update()
        for number, row in enumerate(self.cells):
            column = "".join(text or " " for text, _ in row).find(words)
            if column >= 0:
                return self._look(self.cells[number][column][1])[0]
        raise AssertionError(f"{words!r} is not on the screen:\n{self.text()}")

    def close(self) -> None:
        try:
            self.nvim.command("qall!", async_=True)
            self.nvim.close()
        except (EOFError, OSError):
            pass

    # Pictures

    def _runs(self, row: Sequence[tuple[str, int]]) -> Iterator[tuple[int, str, int]]:
        """Cells of one look, side by side: the column, the text, the look."""
        start = 0
        for column in range(1, len(row) + 1):
            if column == len(row) or row[column][1] != row[start][1]:
                yield start, "".join(text for text, _ in row[start:column]), row[start][1]
                start = column

    def _look(self, number: int) -> tuple[str, str, str]:
        look = {**self._colours, **self._highlights[number]}
        foreground, background = look["foreground"], look["background"]
        if look.get("reverse"):
            foreground, background = background, foreground
        style = "".join(
            f' {name}="{value}"'
            for key, name, value in (
                ("bold", "font-weight", "bold"),
                ("italic", "font-style", "italic"),
                ("underline", "text-decoration", "underline"),
            )
            if look.get(key)
        )
        return f"#{foreground:06x}", f"#{background:06x}", style

    def svg(self, title: str) -> str:
        """The screen as a picture, for the README."""
        across, down, size = 8, 17, 13.3
        width, height = self.width * across, self.height * down
        base = self._look(0)[1]
        font = f'font-family="{FONTS}" font-size="{size}"'
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {font}>',
            f"<title>{html.escape(title)}</title>",
            f'<rect width="{width}" height="{height}" rx="6" fill="{base}"/>',
        ]
        for number, row in enumerate(self.cells):
            for column, text, look in self._runs(row):
                foreground, background, style = self._look(look)
                left, top, length = column * across, number * down, len(text) * across
                if background != base:
                    area = f'width="{length}" height="{down}"'
                    lines.append(f'<rect x="{left}" y="{top}" {area} fill="{background}"/>')
                if text.strip():
                    place = f'x="{left}" y="{top + 13}" textLength="{length}"'
                    dress = f'fill="{foreground}"{style} xml:space="preserve"'
                    lines.append(f"<text {place} {dress}>{html.escape(text)}</text>")
        return "\n".join([*lines, "</svg>", ""])
