"""A registry's protobuf schemas as text: compiled, with nothing of theirs on the compiler's command line."""

# ruff: noqa: E402 (what is absent skips the file first)

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("google.protobuf")
protoc = pytest.importorskip("grpc_tools.protoc")

from hypothesis import example, given
from hypothesis import strategies as st

from odradek.serdes.errors import SchemaError
from odradek.serdes.protobuf_files import Messages, file_of_registry
from odradek.util.protobuf_text import ProtobufTextError, with_imports

INNER = 'syntax = "proto3"; package inner; message Inner { int32 x = 1; }'
ROOT = 'syntax = "proto3"; import "{}"; message Root {{ inner.Inner a = 1; }}'


def root_of(schema: str, references: list[tuple[str, str]], name: str = "7.proto") -> Messages:
    return Messages(file_of_registry(schema, name, references))


@pytest.fixture
def nothing_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder with a folder for temporary files in it, which stays empty."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    return tmp_path


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


HOSTILE_NAMES = (
    "--plugin=protoc-gen-x=/bin/sh",
    "--x_out=.",
    "touch ran",
    "--python_out=.",
    "--descriptor_set_out=stolen",
    "-I/",
    "@/etc/passwd",
    "@words",
    "--",
    "-",
    "../outside.proto",
    "/etc/passwd",
    "a\x00b",
    "a\nb",
    "",
    ".",
    "..",
    "0.proto",
    "descriptors",
    "a:b=c",
    "x" * 300,
    "ümlaut.proto",
    "a/b.proto",
    "{0}%s",
    "google/protobuf/any.proto",
    'quo"te',
    "back\\slash",
)


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_name_of_a_reference_is_a_name_and_nothing_else(name: str, nothing_written: Path) -> None:
    """Whatever a reference is called, the schema that does not import it is read as if it were not there."""
    (nothing_written / "words").write_text("--python_out=.\n", encoding="utf-8")
    found = root_of('syntax = "proto3"; message Root { int32 a = 1; }', [(name, INNER)])
    assert found.named("Root").full_name == "Root"
    assert found.files[-1] == "7.proto"
    assert files_in(nothing_written) == ["words"]


def test_no_command_is_run(nothing_written: Path) -> None:
    """Three names that have protoc run a shell as its plugin, which runs the third."""
    names = ["--plugin=protoc-gen-x=/bin/sh", f"--x_out={nothing_written}", f"touch {nothing_written}/ran"]
    root_of('syntax = "proto3"; message Root { int32 a = 1; }', [(name, INNER) for name in names])
    assert files_in(nothing_written) == []


def test_the_compiler_is_given_words_of_ours_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[list[str]] = []
    main = protoc.main

    def noted(words: list[str]) -> int:
        given.append(list(words))
        return int(main(words))

    monkeypatch.setattr(protoc, "main", noted)
    root_of(
        ROOT.format("a/inner.proto"),
        [("a/inner.proto", INNER), ("--x_out=.", INNER.replace("inner", "other"))],
    )
    (words,) = given
    assert [word for word in words if not word.startswith(("-I", "--descriptor_set_out="))] == [
        "protoc",
        "--include_imports",
        "2.proto",
    ]


@pytest.mark.parametrize("name", [name for name in HOSTILE_NAMES if not set(name) & set('"\\\n\x00')])
def test_a_schema_imports_a_reference_by_whatever_name(name: str, nothing_written: Path) -> None:
    found = root_of(ROOT.format(name), [(name, INNER)])
    assert found.named("Root").fields_by_name["a"].message_type.full_name == "inner.Inner"
    assert found.files[-2:] == [name, "7.proto"]
    assert files_in(nothing_written) == []


def test_references_that_import_each_other() -> None:
    middle = 'syntax = "proto3"; package mid; import public "in.proto"; message Middle { inner.Inner i = 1; }'
    root = """
        // import "nowhere.proto";
        syntax = 'proto3'; /* import "nowhere either.proto"; */
        import
          "mi" /* cut
          in two */ 'd.proto';
        import "google/protobuf/timestamp.proto";
        option java_package = "import \\"none.proto\\";";
        message Root {
          message import { int32 a = 1; }
          mid.Middle m = 1; inner.Inner i = 2; google.protobuf.Timestamp t = 3; import j = 4;
        }
    """
    found = root_of(root, [("in.proto", INNER), ("mid.proto", middle)])
    assert [field.name for field in found.named("Root").fields] == ["m", "i", "t", "j"]
    assert found.at([0])[0].full_name == "Root"


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (ROOT.format("none.proto"), r"imports 'none\.proto', which is not among its references: 'in\.proto'"),
        (ROOT.format("/etc/passwd"), r"imports '/etc/passwd', which is not among"),
        (ROOT.format("0.proto"), r"imports '0\.proto', which is not among"),
        (ROOT.format("a\\x41"), r"imports .* written with an escape"),
        ('syntax = "proto3"; message {', r"'7\.proto' does not compile.*called 1\.proto"),
        ('syntax = "proto3"; message A { \ud800 }', r"'7\.proto' is not text"),
        ('syntax = "proto3"; import "', r"'7\.proto' does not compile"),
        ("/* no end", r"has no message|does not compile"),
    ],
)
def test_what_is_wrong_is_told(schema: str, message: str, nothing_written: Path) -> None:
    with pytest.raises(SchemaError, match=message):
        root_of(schema, [("in.proto", INNER)]).at([0])
    assert files_in(nothing_written) == []


def test_a_temporary_folder_of_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """protoc takes an equals sign in `-I` for a mapping, and a colon for the end of a path."""
    folder = tmp_path / "ä b=c"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    assert root_of(ROOT.format("in.proto"), [("in.proto", INNER)]).named("Root").name == "Root"
    assert list(folder.iterdir()) == []
    (folder / ":").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder / ":"))
    with pytest.raises(SchemaError, match="TMPDIR"):
        root_of(INNER, [])


def test_the_locale_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("locale.getencoding", lambda: "ascii")
    text = 'syntax = "proto3"; /* ü */ message Root { string a = 1 [json_name = "ü"]; }'
    assert root_of(text, []).named("Root").fields[0].json_name == "ü"


_PIECES = st.sampled_from(
    [
        "import", " ", '"a.proto"', "'b.proto'", ";", "public", "weak", "{", "}", "//", "/*", "*/", "\n", '"',
        "'", "\\", "message A", "=", "\x00", "é", '"--x_out=."', '"@/etc/passwd"', "syntax = 'proto3';",
    ]
)  # fmt: skip


@pytest.mark.fuzz
@given(text=st.lists(_PIECES, max_size=30).map("".join))
@example(text='import "a.proto";import "b.proto"')
def test_any_text_is_compiled_or_refused(text: str) -> None:
    """Invariant: descriptors or `ProtobufTextError`; and imports that are left are protobuf's own."""
    known = {"a.proto": "0.proto", "b.proto": "1.proto"}
    try:
        rewritten = with_imports(text, "t", known)
    except ProtobufTextError:
        return
    again: list[str] = []
    with_imports(rewritten, "t", _Noting(again))
    assert set(again) <= set(known.values())


class _Noting(dict[str, str]):
    """A mapping of every name to itself that notes what was asked."""

    def __init__(self, asked: list[str]) -> None:
        super().__init__()
        self._asked = asked

    def get(self, name: str, default: object = None) -> str:  # type: ignore[override]
        del default
        self._asked.append(name)
        return name


@pytest.mark.fuzz
@given(
    names=st.lists(st.text(max_size=20) | st.sampled_from(HOSTILE_NAMES), max_size=4, unique=True),
    texts=st.lists(st.lists(_PIECES, max_size=12).map("".join), min_size=5, max_size=5),
)
def test_any_registry_is_read_or_refused(names: list[str], texts: list[str]) -> None:
    """Invariant: message types or `SchemaError`, whatever a registry calls its references and has in them."""
    with contextlib.suppress(SchemaError):
        root_of(texts[-1], list(zip(names, texts, strict=False)))
