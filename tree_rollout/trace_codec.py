"""What is read back equals what was written, bit for bit, or it is a `TraceError`; nothing read decides how much memory is taken."""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import zstandard

from tree_rollout.errors import TraceError
from tree_rollout.stop_reason import StopReason
from tree_rollout.turn import Origin, Turn

Row = tuple[Any, ...]
"""Values of one stored row: int, float, str, bytes or None."""

MAX_BLOB_BYTES = 256 << 20
"""Bytes that one text or array may have; what is or claims to be larger is neither written nor unpacked."""
TOKEN_DTYPES = {"ids": "<i4", "mask": "|b1", "logprobs": "<f4", "entropies": "<f4"}
"""Stored type of a turn's arrays; those of all turns that were appended together lie end to end in one blob."""
NEW_SEGMENT = "new_segment"
ARRAY_DTYPES = {**TOKEN_DTYPES, "advantages": "<f8", NEW_SEGMENT: "|b1"}
"""`advantages` and `new_segment` have one value per turn; the latter is left out where it is false throughout."""
TURN_COLUMNS = {
    "parent": "INTEGER",
    "observation": "BLOB",
    "action": "BLOB",
    "tokens": "INTEGER",
    "policy_version": "INTEGER",
    # SQLite keeps a REAL column's -0.0 as 0 and no NaN at all: a column without a type keeps the former, NULL stands for the latter.
    "reward": "",
    "terminated": "INTEGER",
    "truncated": "INTEGER",
    "valid": "INTEGER",
    "success": "INTEGER",
    "state": "TEXT",
    "next_state": "TEXT",
    "stop_reason": "TEXT",
    "origin_kind": "TEXT",
    "origin_rule": "TEXT",
    "origin_score": "",
}
"""A turn's row, in order; `observation` and `action` are digests of blobs, `tokens` is the length of its arrays."""

_DIGEST_BYTES = 20
_ORIGIN_KINDS = ("root", "branch", "fork")


def digest(raw: bytes) -> bytes:
    """The address of a blob."""
    return hashlib.blake2b(raw, digest_size=_DIGEST_BYTES).digest()


def chain(previous: bytes, rows: Iterable[Row]) -> bytes:
    """A digest of `rows` that also stands for everything that `previous` stands for."""
    return digest(previous + ascii(list(rows)).encode("ascii"))


def pack(raws: Sequence[bytes]) -> list[bytes]:
    """The compressed form of each blob; one larger than `MAX_BLOB_BYTES` is an error."""
    largest = max(map(len, raws), default=0)
    if largest > MAX_BLOB_BYTES:
        raise TraceError(f"one text or array has {largest:,} bytes, and a trace holds at most {MAX_BLOB_BYTES:,} in one piece")
    compressor = zstandard.ZstdCompressor()
    return [compressor.compress(raw) for raw in raws]


def unpack(packed: bytes, size: int, address: bytes) -> bytes:
    """The blob of `size` bytes at `address`; the frame's own size is compared before any memory is taken."""
    try:
        claimed = zstandard.get_frame_parameters(packed).content_size
        if claimed != size or not 0 <= size <= MAX_BLOB_BYTES:
            raise TraceError(f"blob {address.hex()} claims {claimed:,} bytes where {size:,} are expected and {MAX_BLOB_BYTES:,} allowed")
        raw = zstandard.ZstdDecompressor().decompress(packed, max_output_size=size)
    except zstandard.ZstdError as error:
        raise TraceError(f"blob {address.hex()} does not decompress ({error})") from error
    if digest(raw) != address:
        raise TraceError(f"the content of blob {address.hex()} is not what its digest says")
    return raw


def encode_text(text: str) -> bytes:
    """UTF-8, in which a lone surrogate (from a file name, say) survives too."""
    return text.encode("utf-8", "surrogatepass")


def decode_text(raw: bytes) -> str:
    """The inverse of `encode_text`."""
    return raw.decode("utf-8", "surrogatepass")


def encode_json(value: object, what: str) -> str:
    """Canonical JSON of a mapping that comes back equal; anything else (a tuple, a NaN, a number as a key) is an error."""
    try:
        text = json.dumps(value, sort_keys=True, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
        if isinstance(value, dict) and json.loads(text) == value:
            return text
    except (TypeError, ValueError, RecursionError) as error:
        raise TraceError(f"{what} cannot be kept as JSON: {error}") from error
    raise TraceError(f"{what} must be a mapping of JSON values (text, finite numbers, true, false, null, lists, mappings with text keys)")


def decode_json(text: str, what: str) -> dict[str, Any]:
    """Parse a JSON mapping; repeated keys, NaN and other values than a mapping are errors."""
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
    except (ValueError, TypeError, RecursionError) as error:
        raise TraceError(f"{what} is not proper JSON: {error}") from error
    if not isinstance(value, dict):
        raise TraceError(f"{what} is a JSON {type(value).__name__}, not a mapping")
    return value


def encode_arrays(turns: Sequence[Turn]) -> dict[str, bytes]:
    """The token arrays of all turns, end to end; arrays of one turn that differ in length or are of another type are an error."""
    columns = {
        "ids": [turn.ids_T for turn in turns],
        "mask": [turn.mask_T for turn in turns],
        "logprobs": [turn.logprobs_T for turn in turns],
        "entropies": [turn.entropies_T for turn in turns],
    }
    shapes = [(len(array_T),) for array_T in columns["ids"]]
    raws: dict[str, bytes] = {}
    for name, arrays in columns.items():
        stored = np.dtype(TOKEN_DTYPES[name])
        for index, (array_T, shape) in enumerate(zip(arrays, shapes, strict=True)):
            if array_T.shape != shape or array_T.dtype != stored:
                found = f"{array_T.dtype} of shape {array_T.shape}"
                raise TraceError(f"{name} of turn {index} are {found}; they must be {stored} of shape {shape}")
        raws[name] = np.concatenate(arrays, dtype=stored).tobytes() if arrays else b""
    return raws


def decode_array(raw: bytes, name: str, dtype: str, length: int) -> npt.NDArray[Any]:
    """The array called `name`, shape (length,), in this machine's byte order and free to be changed."""
    if dtype != ARRAY_DTYPES.get(name):
        raise TraceError(f"the array {name!r} is recorded with type {dtype!r}, which is not its own")
    if len(raw) != length * np.dtype(dtype).itemsize:
        raise TraceError(f"the array {name!r} has {len(raw):,} bytes, which is not {length:,} times {dtype}")
    return np.frombuffer(raw, dtype).astype(np.dtype(dtype).newbyteorder("="))


def turn_row(turn: Turn, observation: bytes, action: bytes) -> Row:
    """The values of `TURN_COLUMNS`; `observation` and `action` are the digests of those texts."""
    origin = turn.origin
    return (
        int(turn.parent),
        observation,
        action,
        len(turn.ids_T),
        int(turn.policy_version),
        _float(turn.reward),
        int(turn.terminated),
        int(turn.truncated),
        int(turn.valid),
        int(turn.success),
        turn.state,
        turn.next_state,
        None if turn.stop_reason is None else turn.stop_reason.value,
        None if origin is None else origin.kind,
        None if origin is None else origin.rule,
        None if origin is None else _float(origin.score),
    )


def row_turn(row: Row, texts: Mapping[bytes, str], arrays: Mapping[str, npt.NDArray[Any]], new_segment: bool) -> Turn:
    """The turn of a row; `arrays` are this turn's own."""
    value = dict(zip(TURN_COLUMNS, row, strict=True))
    origin = None
    if value["origin_kind"] is not None:
        if value["origin_kind"] not in _ORIGIN_KINDS:
            raise TraceError(f"{value['origin_kind']!r} is no kind of origin")
        origin = Origin(value["origin_kind"], value["origin_rule"], _unfloat(value["origin_score"]))
    return Turn(
        parent=value["parent"],
        observation=texts[value["observation"]],
        action=texts[value["action"]],
        ids_T=arrays["ids"],
        mask_T=arrays["mask"],
        logprobs_T=arrays["logprobs"],
        entropies_T=arrays["entropies"],
        policy_version=value["policy_version"],
        reward=_unfloat(value["reward"]),
        terminated=bool(value["terminated"]),
        truncated=bool(value["truncated"]),
        valid=bool(value["valid"]),
        success=bool(value["success"]),
        state=value["state"],
        next_state=value["next_state"],
        stop_reason=None if value["stop_reason"] is None else StopReason(value["stop_reason"]),
        origin=origin,
        new_segment=new_segment,
    )


def _float(number: float) -> float | None:
    return None if math.isnan(number) else float(number)


def _unfloat(number: float | None) -> float:
    return math.nan if number is None else float(number)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key is repeated")
    return value


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")
