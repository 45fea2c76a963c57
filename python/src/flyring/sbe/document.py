# SPDX-License-Identifier: Apache-2.0
"""The XML of a schema: elements that know their file and line, with every XInclude resolved.

No DTD (and so no entity of one) is read, and nothing is fetched from a network.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit
from xml.parsers import expat

from .errors import SchemaError

XINCLUDE = "http://www.w3.org/2001/XInclude"
_ENCODING = re.compile(r"""\A\s*<\?xml\s[^>]*?encoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_DEEPEST = 100  # nested elements, and nested includes: hostile text must not exhaust the stack


@dataclass(slots=True, eq=False)
class Element:
    """One XML element. ``name``: as written, with its prefix. ``text``: the text before the first child or comment."""

    name: str
    namespace: str
    attributes: dict[str, str]
    file: str
    line: int
    parent: Element | None
    start: int  # byte offsets in its file: <a>...</a> is source[start:end], its content is source[inside:close]
    inside: int = 0
    close: int = 0
    end: int = 0
    children: list[Element] = field(default_factory=list)
    text: str | None = None
    text_ended: bool = False
    warned: dict[str, list[Element]] = field(default_factory=dict)  # of the outermost element only: see attributes.warn

    @property
    def local_name(self) -> str:
        return self.name.rpartition(":")[2]

    def get(self, attribute: str) -> str | None:
        return self.attributes.get(attribute)

    def __str__(self) -> str:
        name = self.attributes.get("name")
        return f"<{self.name}>" if name is None else f'<{self.name} name="{name}">'

    def at(self) -> str:
        nameless = self.parent is None or "name" not in self.parent.attributes
        return f"{self.file}:{self.line}: {self}{'' if nameless else f' in {self.parent}'}"

    def error(self, text: str) -> SchemaError:
        return SchemaError(f"{self.at()}: {text}")


def load(path: str | os.PathLike[str]) -> tuple[Element, str]:
    """Returns the root element of a file, and the file's text with every XInclude resolved."""
    return _whole(*_read(os.fspath(path), ()))


def parse(text: str, base: str | os.PathLike[str] | None = None) -> tuple[Element, str]:
    """Like ``load``, for a text. ``base``: the folder that an XInclude in it is relative to."""
    source = text.encode("utf-8", "surrogatepass")
    root = _Reader(source, "<schema>").root()
    return _whole(source, root, _resolved(root, source, None if base is None else os.fspath(base), ()))


def _whole(source: bytes, root: Element, resolved: bytes) -> tuple[Element, str]:
    text = (source[: root.start] + resolved + source[root.end :]).decode()
    declared = _ENCODING.match(text)
    if declared and declared[1].lower() not in ("utf-8", "us-ascii"):  # the text is kept as UTF-8
        text = text[: declared.start(1)] + "UTF-8" + text[declared.end(1) :]
    return root, text


def _read(path: str, including: tuple[str, ...]) -> tuple[bytes, Element, bytes]:
    """Returns a file's source, its root element, and the root's source with every XInclude resolved."""
    with open(path, "rb") as file:
        data = file.read()
    encodings = [encoding for mark, encoding in _MARKS if data.startswith(mark)]
    declared = _ENCODING.match(data[:200].decode("latin-1"))
    encoding = encodings[0] if encodings else declared[1] if declared else "utf-8"
    try:
        source = data.decode(encoding).encode()
    except (UnicodeError, LookupError) as error:
        raise SchemaError(f"{path}: not text in {encoding}: {error}. Save it as UTF-8") from None
    root = _Reader(source, path).root()
    return source, root, _resolved(root, source, os.path.dirname(path), (*including, os.path.realpath(path)))


def _resolved(element: Element, source: bytes, base: str | None, including: tuple[str, ...]) -> bytes:
    """Returns the element's source with every XInclude replaced. Replaces the element's children in the same way."""
    text, element.children = _replaced(element.children, element, source, base, including, element.start, element.end)
    return text


def _replaced(
    old: Sequence[Element],
    parent: Element,
    source: bytes,
    base: str | None,
    including: tuple[str, ...],
    start: int,
    end: int,
) -> tuple[bytes, list[Element]]:
    pieces = []
    children = []
    for child in old:
        pieces.append(source[start : child.start])
        start = child.end
        if child.namespace != XINCLUDE:
            pieces.append(_resolved(child, source, base, including))
            children.append(child)
        elif child.local_name != "include":
            raise child.error("only <include> of XInclude can stand here")
        elif (included := _included(child, base, including)) is not None:
            root, text = included
            root.parent = parent
            pieces.append(text)
            children.append(root)
        else:
            fallback = child.children[0]
            text, inside = _replaced(
                fallback.children, parent, source, base, including, fallback.inside, fallback.close
            )
            for one in inside:
                one.parent = parent
            pieces.append(text)
            children += inside
    pieces.append(source[start:end])
    return b"".join(pieces), children


def _included(element: Element, base: str | None, including: tuple[str, ...]) -> tuple[Element, bytes] | None:
    """Returns the root of an included file and its source; None if the file is missing and there is a fallback."""
    href = element.get("href")
    if not href or element.get("xpointer") or (element.get("parse") or "xml") != "xml":
        raise element.error('can only include a whole XML file: give href="FILE", no xpointer and no parse="text"')
    url = urlsplit(href)
    if url.scheme not in ("", "file") or url.netloc or url.query or url.fragment:
        raise element.error(f'href="{href}" is not a file; nothing is fetched from a network. Copy it to this machine')
    if base is None and not os.path.isabs(url.path):
        raise element.error(f'href="{href}" is relative, but this text is from no file: load the file, or give base')
    path = os.path.join(base or "", unquote(url.path))
    if os.path.realpath(path) in including:
        raise element.error(f'href="{href}" includes itself: {" -> ".join((*including, os.path.realpath(path)))}')
    if len(including) >= _DEEPEST:
        raise element.error(f"files include each other more than {_DEEPEST} deep")
    try:
        _, root, resolved = _read(path, including)
    except OSError as error:
        if [child.local_name for child in element.children] == ["fallback"]:
            return None
        raise element.error(f'href="{href}": cannot read {path}: {error.strerror}') from error
    return root, resolved


class _Reader:
    """One run of expat, which tells where each event begins. An element ends where the next event begins."""

    def __init__(self, source: bytes, file: str) -> None:
        self.source = source
        self.file = file
        self.parser = expat.ParserCreate("utf-8", " ")
        self.parser.namespace_prefixes = True
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.characters
        self.parser.CommentHandler = self.other
        self.parser.ProcessingInstructionHandler = self.other
        self.parser.DefaultHandlerExpand = self.begun
        self.parser.XmlDeclHandler = self.declaration
        self.parser.StartDoctypeDeclHandler = self.document_type
        self.roots: list[Element] = []
        self.open: list[Element] = []
        self.opened: Element | None = None
        self.closed: Element | None = None

    def root(self) -> Element:
        try:
            self.parser.Parse(self.source, True)
        except expat.ExpatError as error:
            what = expat.ErrorString(error.code)
            raise SchemaError(f"{self.file}:{error.lineno}: not well-formed XML: {what}") from None
        if self.closed is not None:
            self.closed.end = len(self.source)
        return self.roots[0]

    def begun(self, _: object = None) -> int:
        index = self.parser.CurrentByteIndex
        if self.opened is not None:
            self.opened.inside = index
            self.opened = None
        if self.closed is not None:
            self.closed.end = index
            self.closed = None
        return index

    def start(self, name: str, attributes: dict[str, str]) -> None:
        index = self.begun()
        line = self.parser.CurrentLineNumber
        if len(self.open) >= _DEEPEST:
            raise SchemaError(f"{self.file}:{line}: more than {_DEEPEST} elements are in each other")
        *namespace, local, prefix = name.split(" ") if name.count(" ") == 2 else (*name.split(" "), "")
        parent = self.open[-1] if self.open else None
        element = Element(
            f"{prefix}:{local}" if prefix else local,
            "".join(namespace),
            {key: value for key, value in attributes.items() if " " not in key},
            self.file,
            line,
            parent,
            index,
        )
        if parent is None:
            self.roots.append(element)
        else:
            parent.text_ended = True
            parent.children.append(element)
        self.open.append(element)
        self.opened = element

    def end(self, _: str) -> None:
        index = self.begun()
        self.closed = self.open.pop()
        self.closed.close = index

    def characters(self, text: str) -> None:
        self.begun()
        element = self.open[-1]
        if not element.text_ended:
            element.text = (element.text or "") + text

    def other(self, *_: object) -> None:
        self.begun()
        if self.open:
            self.open[-1].text_ended = True

    def declaration(self, version: str, *_: object) -> None:
        if version not in ("1.0", "1.1"):
            raise SchemaError(f'{self.file}:1: XML version "{version}" is not known: write version="1.0"')

    def document_type(self, _: str, system: str | None, public: str | None, internal: int) -> None:
        if system is None and public is None and not internal:  # an empty one defines nothing
            return
        line = self.parser.CurrentLineNumber
        raise SchemaError(f"{self.file}:{line}: <!DOCTYPE>: a schema needs none, and none is read. Remove it")
