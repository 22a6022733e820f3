import gzip

import pytest

from glassformer.errors import TextError
from glassformer.text import lines, open_text, read_lines
from glassformer.text.lines import normalize_source, normalize_spaces


def lines_of(tmp_path, content: bytes, name: str = "a.txt") -> list[str]:
    path = tmp_path / name
    path.write_bytes(content)
    return list(read_lines(path))


@pytest.mark.parametrize("inside", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1e", "\r"])
def test_only_a_line_feed_ends_a_line(tmp_path, inside):
    text = f"one{inside}still one\ntwo\n"
    assert lines_of(tmp_path, text.encode()) == [f"one{inside}still one", "two"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\n\nb", ["a", "", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\r\r\n", ["a\r"]),
        (b"\xef\xbb\xbfa\nb", ["a", "b"]),
        (b"a\n\xef\xbb\xbfb", ["a", "\ufeffb"]),
        (b" a \n", [" a "]),
    ],
)
def test_line_ends_and_byte_order_mark(tmp_path, content, expected):
    assert lines_of(tmp_path, content) == expected


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_gzip_is_recognized_by_its_bytes(tmp_path, name):
    packed = gzip.compress(b"a\nb") + gzip.compress(b"c\n")
    assert lines_of(tmp_path, packed, name) == ["a", "bc"]
    assert lines_of(tmp_path, b"plain\n", name) == ["plain"]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_read_by_its_mark(tmp_path, monkeypatch, encoding):
    text = "\ufeffhöre\r\n\n\u0a0a\u2028a\n😀\u0a05"  # letters with the byte of a line feed
    assert lines_of(tmp_path, text.encode(encoding)) == ["höre", "", "\u0a0a\u2028a", "😀\u0a05"]
    assert lines_of(tmp_path, gzip.compress(text.encode(encoding))) == lines_of(tmp_path, text.encode())
    with pytest.raises(TextError, match=rf"a\.txt:4: is not {encoding}, as its mark says: "):
        lines_of(tmp_path, text.encode(encoding) + b"x")
    monkeypatch.setattr(lines, "LONGEST_LINE", 9)
    with pytest.raises(TextError, match=r"a\.txt:1: the line is longer"):
        lines_of(tmp_path, ("\ufeff" + 5 * "\u0a0a").encode(encoding))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark_is_named(tmp_path, encoding):
    with pytest.raises(TextError, match=r"a\.txt:1:\d+: .*UTF-16"):
        lines_of(tmp_path, "höre\n".encode(encoding))


@pytest.mark.parametrize("encoding", ["utf-32", "utf-32-le", "utf-32-be"])
def test_utf_32_is_named(tmp_path, encoding):
    with pytest.raises(TextError, match=r"a\.txt:1:\d+: .*UTF-32"):
        lines_of(tmp_path, "höre\n".encode(encoding))
    marked = "\ufeffhöre\n".encode(encoding)
    with pytest.raises(TextError, match=r"the file is UTF-32, expected UTF-8.*iconv -f UTF-32"):
        lines_of(tmp_path, marked)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("gut\nhin für\n".encode("latin-1"), r"a\.txt:2:6: found byte 0xFC.*'ü'.*WINDOWS-1252"),
        (b"ok\nx\0y\n", r"a\.txt:2:2: .*binary"),
        (b"one\rtwo\rthree\r", r"a\.txt:1:4: .*carriage return"),
    ],
)
def test_bytes_that_are_no_utf_8_text_are_named_with_their_position(tmp_path, content, message):
    with pytest.raises(TextError, match=message):
        lines_of(tmp_path, content)


def test_lines_before_the_bad_one_are_still_read(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"good\n\xff\n")
    stream = read_lines(path)
    assert next(stream) == "good"
    with pytest.raises(TextError, match=":2:1:"):
        next(stream)


def test_missing_file_and_directory(tmp_path):
    with pytest.raises(TextError, match="No such file"):
        list(read_lines(tmp_path / "missing.txt"))
    with pytest.raises(TextError, match="directory"):
        list(read_lines(tmp_path))


def test_permission_denied(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("glassformer.text.lines.open_to_read", refuse)
    with pytest.raises(TextError, match=r"a\.txt: .*Permission denied"):
        list(read_lines(tmp_path / "a.txt"))


@pytest.mark.parametrize("damage", ["cut", "garbled", "header"])
def test_damaged_gzip(tmp_path, damage):
    packed = bytearray(gzip.compress(b"".join(b"line %d\n" % (n * n) for n in range(2000))))
    if damage == "cut":
        packed = packed[: len(packed) // 2]
    elif damage == "garbled":
        packed[len(packed) // 2] ^= 0xFF
    else:
        packed = bytearray(b"\x1f\x8bnot gzip at all")
    with pytest.raises(TextError, match="gzip"):
        lines_of(tmp_path, bytes(packed), "a.gz")


def test_open_text_gives_decompressed_bytes(tmp_path):
    (tmp_path / "a").write_bytes(gzip.compress(b"\x00\xff"))
    with open_text(tmp_path / "a") as stream:
        assert stream.read() == b"\x00\xff"


SPACES = "\t\u00a0\u1680\u2000\u2003\u2009\u200a\u202f\u205f\u3000\n\r\v\f\x1c\x1f\x85\u2028\u2029"


@pytest.mark.parametrize(
    "text",
    [*(f"I{space}am here." for space in SPACES), "  I am  here. ", "\ufeffI am here.", "I \u200b am he\u00adre.\u2060",
     "I\u00a0 am here.\u200b \u200b", "I am he\u200cr\u200de."],
)  # fmt: skip
def test_a_model_reads_plain_spaces_and_no_sign_without_width(text):
    assert normalize_source(text) == "I am here."
    assert normalize_spaces(f" {text}\t") == " I am here. "


@pytest.mark.parametrize(
    "text", ["می\u200cخواهم", "क्\u200dष", "ශ්\u200dරී", "👨\u200d👩\u200d👧", "❤\ufe0f\u200d🔥", "", "a b"]
)
def test_joiners_stay_where_they_are_letters_or_join_pictures(text):
    assert normalize_source(text) == normalize_spaces(text) == text
