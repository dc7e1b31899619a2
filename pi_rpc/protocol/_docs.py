"""Descriptions of structs and fields, from their docstrings in the source.

Python keeps no attribute docstrings, so the source is parsed. Only schema and documentation are
made this way; nothing that runs in the daemon imports this module."""

import ast
import inspect
import sys
from functools import lru_cache

from msgspec import Struct

from pi_rpc.protocol.events import SessionChanged
from pi_rpc.protocol.state import SessionState

__all__ = ["field_docs", "struct_doc"]

_SHARED: dict[type[Struct], type[Struct]] = {SessionChanged: SessionState}
"""Structs whose fields without a description mean the same as another's of that name."""


def struct_doc(struct: type[Struct]) -> str:
    """What the struct is: its docstring as one paragraph of Markdown."""
    return _tidy(inspect.getdoc(struct) or "")


def field_docs(struct: type[Struct]) -> dict[str, str]:
    """The description of each field, by wire name; of fields that have one."""
    docs: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        if issubclass(base, Struct) and base.__module__ in sys.modules:
            docs |= _attribute_docs(base.__module__).get(base.__name__, {})
    names = zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True)
    described = {wire: docs[name] for name, wire in names if name in docs}
    if other := _SHARED.get(struct):
        theirs = field_docs(other)
        for wire in struct.__struct_encode_fields__:
            if wire not in described and wire in theirs:
                described[wire] = theirs[wire]
    return described


@lru_cache(maxsize=64)
def _attribute_docs(module: str) -> dict[str, dict[str, str]]:
    """Of each class of a module: its attributes' docstrings."""
    try:
        source = inspect.getsource(sys.modules[module])
    except (OSError, TypeError):  # a module without source, such as msgspec's own base class
        return {}
    return {
        node.name: _of_class(node)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef)
    }


def _of_class(node: ast.ClassDef) -> dict[str, str]:
    docs = {}
    for statement, after in zip(node.body, node.body[1:], strict=False):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
            and isinstance(after.value.value, str)
        ):
            docs[statement.target.id] = _tidy(after.value.value)
    return docs


def _tidy(text: str) -> str:
    return " ".join(text.split()).replace("``", "`")
