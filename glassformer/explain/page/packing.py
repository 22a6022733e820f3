"""Bytes as the text of a script element: gzip, in base64 or with seven bits a character; ``unpack`` reads both."""

import base64
import gzip

import numpy as np

_FORBIDDEN = np.array([0, ord("\r"), ord("<")])  # HTML has no such character, or it could end a script


def pack(data: bytes, *, dense: bool = False) -> str:
    """The text; ``dense``: in seven bits a character, a seventh less than base64 takes in UTF-8."""
    packed = gzip.compress(data, mtime=0)
    return _seven_bits(packed) if dense else base64.b64encode(packed).decode("ascii")


def unpack(text: str) -> bytes:
    """What ``pack`` was given."""
    size, is_dense, rest = text.partition(":")
    if not is_dense:
        return gzip.decompress(base64.b64decode(text))
    codes = np.frombuffer(rest.encode("utf-32-le"), "<u4")
    is_double = codes >= 128
    sevens, ends = np.repeat(codes, 1 + is_double), np.cumsum(1 + is_double)
    pairs, double = ends[is_double] - 2, codes[is_double]
    sevens[pairs], sevens[pairs + 1] = _FORBIDDEN[(double >> 7) - 1], double & 127
    bits = np.unpackbits(sevens.astype(np.uint8)[:, None], axis=1)[:, 1:]
    return gzip.decompress(np.packbits(bits.ravel()).tobytes()[: int(size)])


def _seven_bits(data: bytes) -> str:
    """Seven bits a character, after the number of bytes; a forbidden one is one with the next from U+0080 on."""
    bits = np.unpackbits(np.frombuffer(data, np.uint8))
    padding = np.ones(7 + -len(bits) % 7, np.uint8)
    codes = np.packbits(np.concatenate([bits, padding]).reshape(-1, 7), axis=1)[:, 0].astype("<u4") >> 1
    kinds, alone = np.searchsorted(_FORBIDDEN, codes), np.ones(len(codes), bool)
    for place in np.flatnonzero(np.isin(codes, _FORBIDDEN)).tolist():
        if alone[place]:
            codes[place] = 128 * (1 + kinds[place]) + codes[place + 1]
            alone[place + 1] = False
    return f"{len(data)}:{codes[alone].tobytes().decode('utf-32-le')}"
