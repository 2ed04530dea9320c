"""Python's own opinion of bytes, for the differential targets.

Reads requests (one letter, four bytes of length, the bytes) from stdin, answers with one
letter (a: accepted, r: refused, s: no opinion), four bytes of length and a text. An accepted
document's text is Python's canonical JSON."""
import json
import math
import os
import struct
import sys

sys.set_int_max_str_digits(0)
NAME = "0123456789abcdef" * 4
SHARDS, SHARD = 4, 1


class Refused(Exception):
    pass


class NoOpinion(Exception):
    pass


def need(holds):
    if not holds:
        raise Refused


def pairs(members):
    found = dict(members)
    need(len(found) == len(members))
    return found


def constant(word):
    raise Refused


def whole(text):
    if text == "-0":  # an integer to Python, no unsigned one to the format
        return -0.0
    return int(text)


def load(data, strict_zero=False):
    text = data.decode("utf-8")
    need(not text.startswith("\ufeff"))
    hooks = {"parse_int": whole} if strict_zero else {}
    return json.loads(text, object_pairs_hook=pairs, parse_constant=constant, **hooks)


def dump(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def unsigned(value, most=2**64 - 1):
    return type(value) is int and 0 <= value <= most


def seconds(value):
    if type(value) not in (int, float) or value < 0:
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def plain(value):
    """Text of ours is UTF-8; whether a peer's lone surrogate is text is not said."""
    need(isinstance(value, str))
    if any(0xD800 <= ord(char) < 0xE000 for char in value):
        raise NoOpinion
    return True


def document(data):
    return dump(load(data))


def lease(data):
    record = load(data, True)
    need(isinstance(record, dict))
    need(record.get("schema") == 1 and type(record["schema"]) is int)
    need(record.get("id") == NAME and isinstance(record["id"], str))
    need(record.get("status") in ("leased", "committing", "done"))
    need(isinstance(record.get("payload"), dict))
    need(isinstance(record.get("token"), str) and record["token"] != "")
    need(seconds(record.get("updated")))
    need("commit" not in record or isinstance(record["commit"], dict))
    need("ttl" not in record or (seconds(record["ttl"]) and float(record["ttl"]) > 0))
    need("fence" not in record or unsigned(record["fence"]))
    return ""


def shard(data, number=SHARD):
    return check_shard(load(data, True), number)


def check_shard(record, number=None):
    need(isinstance(record, dict))
    for key in record:
        plain(key)
    need(unsigned(record.get("schema")) and record["schema"] == 1)
    need(unsigned(record.get("shard"), SHARDS - 1))
    need(number is None or record["shard"] == number)
    need(unsigned(record.get("epoch")))
    need(isinstance(record.get("entries"), list) and isinstance(record.get("contributors"), dict))
    last = -1
    for entry in record["entries"]:
        need(isinstance(entry, list) and len(entry) == 2)
        index, bits = entry
        need(unsigned(index, 2**23 - 1) and index > last and index % SHARDS == record["shard"])
        need(unsigned(bits, 255) and bits > 0)
        last = index
    for name, count in record["contributors"].items():
        need(plain(name) and name and unsigned(count))
    need("owner_index" not in record or unsigned(record["owner_index"], 2**32 - 1))
    for key in ("owner", "last_writer"):
        need(key not in record or plain(record[key]))
    need("updated" not in record or seconds(record["updated"]))
    return ""


def transaction(data):
    """Everything but the digest, which the target itself puts in."""
    record = load(data, True)
    need(isinstance(record, dict))
    for key in record:
        plain(key)
    need(sorted(record) == ["coordinator", "created", "novel_by_candidate", "records", "schema",
                            "shard_count", "transaction_sha256"])
    need(unsigned(record["schema"]) and record["schema"] == 1)
    need(unsigned(record["shard_count"]) and record["shard_count"] == SHARDS)
    need(plain(record["coordinator"]) and seconds(record["created"]))
    need(isinstance(record["novel_by_candidate"], list))
    need(all(unsigned(count) for count in record["novel_by_candidate"]))
    need(isinstance(record["records"], list))
    last = -1
    for each in record["records"]:
        check_shard(each)
        need(each["shard"] > last)
        last = each["shard"]
    return ""


def path(data):
    """A path's bytes as Python writes them into JSON."""
    return json.dumps(data.decode("utf-8", "surrogateescape"))


KINDS = {"j": document, "l": lease, "s": shard, "t": transaction, "p": path}


def answer(kind, data):
    try:
        return "a", KINDS[kind](data)
    except (NoOpinion, RecursionError):
        return "s", ""
    except (Refused, ValueError, OverflowError):
        return "r", ""


def main():
    sys.setrecursionlimit(5000)
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while head := source.read(5):
        kind, length = chr(head[0]), struct.unpack("<I", head[1:])[0]
        verdict, text = answer(kind, source.read(length))
        encoded = text.encode("ascii")
        sink.write(verdict.encode() + struct.pack("<I", len(encoded)) + encoded)
        sink.flush()
    os._exit(0)


main()
