"""Protobuf's language into descriptors, by the compiler of `grpcio-tools`.

Schemas and the names they are imported by come from a registry, and so from whoever may write to it. protoc
is a program with a command line, even within this process: a name that begins with `--plugin=` has it run a
command, one with `@` read a file, one with `--python_out=` write anywhere, and `--` does not end its options.
So names go no further than this module: sources lie in a folder of their own as `0.proto`, `1.proto` …,
imports are rewritten to these, and in the descriptors that come out they have their names again.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

_TOKEN = re.compile(
    r"""(?P<blank>\s+|//[^\n]*|/\*.*?(?:\*/|\Z))
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<word>\w+)
    |(?P<other>.)""",
    re.DOTALL | re.VERBOSE,
)
_KINDS_OF_IMPORT = ("public", "weak", "option")
_OWN = "google/protobuf/"
"""The beginning of the names of the files that come with protoc."""


_REASON_WITHIN_S = 60


class ProtobufTextError(ValueError):
    """A schema that cannot be compiled; the message says which and why."""


class NoCompilerError(ProtobufTextError):
    """There is no protoc: the package grpcio-tools is missing."""


def compile_text(sources: Sequence[tuple[str, str]], *, with_reason: bool = False) -> list[bytes]:
    """Return the serialized `FileDescriptorProto`s of a schema and of what it imports; its own comes last.

    Args:
        sources: (name by which it is imported, schema), the names all different; the last is to be compiled.
        with_reason: of one that does not compile, have the error say why. protoc is run again for it, as a
            process: within this one it says it on standard error.

    Raises:
        NoCompilerError: there is no compiler.
        ProtobufTextError: they are not valid: protoc tells more on standard error.
    """
    try:
        from grpc_tools import protoc
    except ImportError:
        raise NoCompilerError(
            "the registry has this protobuf schema as text, which needs a compiler: pip install grpcio-tools"
        ) from None
    own_names = [f"{number}.proto" for number in range(len(sources))]
    new_names = {name: own for (name, _), own in zip(sources, own_names, strict=True)}
    with tempfile.TemporaryDirectory(prefix="odradek-") as name:
        folder, include = Path(name), Path(protoc.__file__).parent / "_proto"
        if ":" in name:
            raise ProtobufTextError(
                f"protoc takes no folder with a colon in its name: set TMPDIR to another than {name}"
            )
        for (called, text), own in zip(sources, own_names, strict=True):
            try:
                (folder / own).write_bytes(with_imports(text, called, new_names).encode())
            except UnicodeEncodeError:
                raise ProtobufTextError(
                    f"the protobuf schema '{called}' is not text: half a character"
                ) from None
        out = folder / "descriptors"
        # `-I=`: without it protoc would look for an equals sign in the path.
        words = [
            "protoc",
            f"-I={folder}",
            f"-I={include}",
            "--include_imports",
            f"--descriptor_set_out={out}",
        ]
        if protoc.main([*words, own_names[-1]]):
            why = f"protoc has said why on standard error, where it is called {own_names[-1]}"
            if with_reason:
                why = _reason([*words, own_names[-1]], folder, own_names, sources) or why
            raise ProtobufTextError(f"the protobuf schema '{sources[-1][0]}' does not compile; {why}")
        return _under_their_names(out.read_bytes(), {own: called for called, own in new_names.items()})


def _reason(
    words: Sequence[str], folder: Path, own_names: Sequence[str], sources: Sequence[tuple[str, str]]
) -> str:
    """Return what protoc says about the files of a folder; nothing where that cannot be found out."""
    if not sys.executable:
        return ""
    command = [sys.executable, "-P", "-m", "grpc_tools.protoc", *words[1:]]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_REASON_WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    called_by_own = {own: called for (called, _), own in zip(sources, own_names, strict=True)}
    lines = [line.partition(":") for line in done.stderr.replace(f"{folder}/", "").splitlines()]
    # Other lines are what the compiler warns of.
    told = [f"{called_by_own[own]}:{why}" for own, _, why in lines if own in called_by_own]
    return "; ".join(told[:10])


def with_imports(text: str, name: str, new_names: Mapping[str, str]) -> str:
    """Return a schema whose imports are those of `new_names`.

    What protoc's own reader takes for an import and this one does not, protoc looks for among our files and
    its own, and finds or refuses it there.

    Args:
        text: in protobuf's language.
        name: of the schema, for messages.
        new_names: the new name of each that may be imported.

    Raises:
        ProtobufTextError: it imports something else.
    """
    parts: list[str] = []
    at, depth = 0, 0
    is_start = True
    while at < len(text):
        token = _next(text, at)
        at = token.end()
        if token["blank"] is None and is_start and not depth and token["word"] == "import":
            whole, at = _import(text, token, name, new_names)
            parts.append(whole)
            is_start = False
            continue
        parts.append(token[0])
        if token["blank"] is None:
            depth += {"{": 1, "}": -1}.get(token[0], 0)
            is_start = token[0] in (";", "}")
    return "".join(parts)


def _next(text: str, at: int) -> re.Match[str]:
    token = _TOKEN.match(text, at)
    assert token is not None
    return token


def _import(text: str, word: re.Match[str], name: str, new_names: Mapping[str, str]) -> tuple[str, int]:
    """Return an import under its new name, without the blanks in it, and where it ends in the text."""
    head, parts, at = word[0], list[str](), word.end()
    end = at
    while at < len(text):
        token = _next(text, at)
        at = token.end()
        if token["string"] is not None:
            # Neighbours are one text, as in C.
            parts.append(token["string"][1:-1])
            end = at
        elif not parts and head == "import" and token["word"] in _KINDS_OF_IMPORT:
            head, end = f"import {token[0]}", at
        elif token["blank"] is None:
            break
    if not parts:
        return head, end
    imported = "".join(parts)
    if "\\" in imported:
        raise ProtobufTextError(
            f"the protobuf schema '{name}' imports '{imported}', which is written with an escape"
        )
    new = new_names.get(imported)
    if new is None and not imported.startswith(_OWN):
        those = ", ".join(f"'{other}'" for other in new_names if other != name) or "none"
        raise ProtobufTextError(
            f"the protobuf schema '{name}' imports '{imported}', which is not among its references: {those}"
        )
    return f'{head} "{imported if new is None else new}"', end


def _under_their_names(data: bytes, names: Mapping[str, str]) -> list[bytes]:
    from google.protobuf import descriptor_pb2

    files = descriptor_pb2.FileDescriptorSet.FromString(data).file
    for file in files:
        file.name = names.get(file.name, file.name)
        file.dependency[:] = [names.get(dependency, dependency) for dependency in file.dependency]
    return [file.SerializeToString() for file in files]
