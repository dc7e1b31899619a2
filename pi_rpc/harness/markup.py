"""Text inside of tags that a model reads.

Owns the escaping. The standard library's ``html`` does the same, and brings a table of every
entity there is, which takes longer to load than all that is needed of it.
"""

__all__ = ["escaped"]


def escaped(text: str) -> str:
    """``text`` as it stands between tags, or in the quotes of an attribute."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace('"', "&quot;").replace("'", "&#x27;")
