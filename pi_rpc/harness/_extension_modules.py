"""Extension modules: finding them, and running their code under names of their own.

Every load runs the source anew, so that a session sees the file as it is. Modules are in
``sys.modules``, as dataclasses and relative imports need it, under a name nobody can guess.
"""

import importlib.util
import os
import sys
from collections.abc import Callable
from functools import partial
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from pi_rpc._os.files import read_regular
from pi_rpc.harness._looking import exists, is_folder

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "ENTRY_POINT_GROUP",
    "ExtensionSource",
    "LoadedModule",
    "find_extensions",
    "installed_extensions",
]

ENTRY_POINT_GROUP = "pi_rpc.extensions"
_PREFIX = "pi_rpc_extension_"
_METADATA = (".dist-info", ".egg-info", ".egg")
_LARGEST = 4 * 1024 * 1024


class _Loader(SourceFileLoader):
    """Compiles the source every time: a cached form could be that of an older file."""

    def get_code(self, fullname: str) -> CodeType:
        source, left_out = read_regular(Path(self.path), _LARGEST)
        if left_out:
            raise ImportError(f"the file is larger than {_LARGEST // 2**20} MiB")
        code: CodeType = self.source_to_code(source, self.path)
        return code


class LoadedModule:
    """Where the code of one extension lives in one session."""

    def __init__(self) -> None:
        self._name = _PREFIX + os.urandom(8).hex()

    def load(self, path: Path) -> Any:
        """Run the file or package; blocks, and raises whatever its code does, which leaves nothing
        in ``sys.modules``."""
        package = path.is_dir()
        file = path / "__init__.py" if package else path
        spec = importlib.util.spec_from_file_location(
            self._name,
            file,
            loader=_Loader(self._name, str(file)),
            submodule_search_locations=[str(path)] if package else None,
        )
        if spec is None or spec.loader is None:
            raise ImportError("it is no Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[self._name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            self.forget()
            raise
        return module

    def forget(self) -> None:
        """Take the module and what it imported of itself out of ``sys.modules``."""
        for name in [*sys.modules]:
            if name == self._name or name.startswith(self._name + "."):
                sys.modules.pop(name, None)


class ExtensionSource(Struct, frozen=True):
    """One extension, not loaded yet."""

    name: str
    """For people: its path, or its entry point."""
    load: Callable[[LoadedModule], Any]
    """Gives what has ``setup``, or ``setup`` itself; blocks."""


def find_extensions(*folders: Path) -> tuple[ExtensionSource, ...]:
    """The Python files and packages in ``folders``, by name within each. Blocks; never fails.

    Names that begin with a dot or an underscore are no extensions.
    """
    found = []
    for folder in folders:
        try:
            entries = sorted(folder.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            # Who put a guard there is to know that it is not on duty.
            found.append(ExtensionSource(str(folder), partial(_unreadable, error)))
            continue
        found += [_of_path(path) for path in entries if _is_extension(path)]
    return tuple(found)


def _is_extension(path: Path) -> bool:
    if path.name.startswith((".", "_")):
        return False
    if is_folder(path):
        return exists(path / "__init__.py")
    return path.suffix == ".py"


def _unreadable(error: OSError, _module: LoadedModule) -> Any:
    raise error


def _of_path(path: Path) -> ExtensionSource:
    return ExtensionSource(str(path), lambda module: module.load(path))


def installed_extensions() -> tuple[ExtensionSource, ...]:
    """The extensions of installed packages. Blocks: looks at the metadata of all of them."""
    if not any(map(_has_entry_points, sys.path)):
        return ()
    # Takes longer to load than to find out that mostly there is none.
    from importlib.metadata import entry_points

    found = entry_points(group=ENTRY_POINT_GROUP)
    return tuple(
        _of_entry_point(point) for point in sorted(found, key=lambda each: (each.name, each.value))
    )


def _has_entry_points(folder: str) -> bool:
    """Some package in a folder of ``sys.path`` may have entry points of ours."""
    try:
        with os.scandir(folder or ".") as entries:
            found = [each.path for each in entries if each.name.endswith(_METADATA)]
    except OSError:
        return exists(Path(folder))  # An archive, which may hold anything.
    return any(_names_our_group(Path(path)) for path in found)


def _names_our_group(metadata: Path) -> bool:
    if metadata.suffix == ".egg":
        return True
    try:
        return ENTRY_POINT_GROUP in (metadata / "entry_points.txt").read_text("utf-8", "replace")
    except OSError:
        return False


def _of_entry_point(point: "EntryPoint") -> ExtensionSource:
    return ExtensionSource(f"entry point {point.name} ({point.value})", lambda _: point.load())
