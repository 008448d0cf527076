"""Reads and verifies sealed APR2 files by the specification of SEAL 1, independently of our code: HPKE, HKDF and
BLAKE3's tree are written here from their own specifications. Takes a file of cases, and prints each result as JSON."""
import hashlib
import hmac
import json
import struct
import sys
import zlib

import blake3
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

# The elements and bytes of a block, by dtype code.
BLOCKS = {0: (1, 4), 1: (1, 2), 2: (1, 2), 3: (1, 1), 4: (1, 2), 5: (1, 4), 6: (1, 8), 7: (1, 1),
          16: (32, 34), 17: (32, 18), 18: (32, 20), 19: (32, 22), 20: (32, 24)}
COMPRESSED, SHARDED, ENCRYPTED, SIGNED, QUANTIZED = 1, 8, 16, 32, 64


class Refused(Exception):
    pass


def demand(holds, name):
    if not holds:
        raise Refused(name)


def label(text):
    return b"APR2-SEAL-1 " + text.encode() + b"\0"


def H(*parts):
    return blake3.blake3(b"".join(parts)).digest()


def mac(key, message):
    return hmac.new(key, message, hashlib.sha256).digest()


def expand(key, info, length):
    out, block, number = b"", b"", 1
    while len(out) < length:
        block = mac(key, block + info + bytes([number]))
        out, number = out + block, number + 1
    return out[:length]


def hkdf(salt, secret, info):
    return expand(mac(salt, secret), info, 32)


# BLAKE3, sections 2.1 to 2.5, for the chaining values of pages.
IV = [0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19]
ORDER = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8]
MASK = 0xFFFFFFFF
CHUNK_START, CHUNK_END, PARENT, ROOT = 1, 2, 4, 8


def mix(v, a, b, c, d, x, y):
    v[a] = (v[a] + v[b] + x) & MASK
    v[d] ^= v[a]
    v[d] = (v[d] >> 16 | v[d] << 16) & MASK
    v[c] = (v[c] + v[d]) & MASK
    v[b] ^= v[c]
    v[b] = (v[b] >> 12 | v[b] << 20) & MASK
    v[a] = (v[a] + v[b] + y) & MASK
    v[d] ^= v[a]
    v[d] = (v[d] >> 8 | v[d] << 24) & MASK
    v[c] = (v[c] + v[d]) & MASK
    v[b] ^= v[c]
    v[b] = (v[b] >> 7 | v[b] << 25) & MASK


def compress(cv, words, counter, length, flags):
    v = cv + IV[:4] + [counter & MASK, counter >> 32, length, flags]
    for _ in range(7):
        m = words
        mix(v, 0, 4, 8, 12, m[0], m[1])
        mix(v, 1, 5, 9, 13, m[2], m[3])
        mix(v, 2, 6, 10, 14, m[4], m[5])
        mix(v, 3, 7, 11, 15, m[6], m[7])
        mix(v, 0, 5, 10, 15, m[8], m[9])
        mix(v, 1, 6, 11, 12, m[10], m[11])
        mix(v, 2, 7, 8, 13, m[12], m[13])
        mix(v, 3, 4, 9, 14, m[14], m[15])
        words = [words[n] for n in ORDER]
    return [v[n] ^ v[n + 8] for n in range(8)]


def chunk(data, number):
    cv, blocks = IV, [data[at:at + 64] for at in range(0, len(data), 64)] or [b""]
    for n, block in enumerate(blocks):
        flags = (CHUNK_START if n == 0 else 0) | (CHUNK_END if n == len(blocks) - 1 else 0)
        cv = compress(cv, list(struct.unpack("<16I", block.ljust(64, b"\0"))), number, len(block), flags)
    return cv


def merge(nodes, flags=0):
    if len(nodes) == 1:
        return nodes[0]
    left = 1 << (len(nodes) - 1).bit_length() - 1
    return compress(IV, merge(nodes[:left]) + merge(nodes[left:]), 0, 64, PARENT | flags)


def page_node(data, first):
    chunks = [chunk(data[at:at + 1024], first + at // 1024) for at in range(0, len(data), 1024)]
    return struct.pack("<8I", *merge(chunks))


def root(nodes):
    return struct.pack("<8I", *merge([list(struct.unpack("<8I", node)) for node in nodes], ROOT))


# RFC 9180, base mode: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM.
def labeled_extract(suite, salt, name, secret):
    return mac(salt or bytes(32), b"HPKE-v1" + suite + name + secret)


def labeled_expand(suite, key, name, info, length):
    return expand(key, struct.pack(">H", length) + b"HPKE-v1" + suite + name + info, length)


def hpke_open(secret, enc, info, ciphertext):
    private = X25519PrivateKey.from_private_bytes(secret)
    shared = private.exchange(X25519PublicKey.from_public_bytes(enc))
    kem, suite = b"KEM\0\x20", b"HPKE\0\x20\0\1\0\2"
    prk = labeled_extract(kem, b"", b"eae_prk", shared)
    shared = labeled_expand(kem, prk, b"shared_secret", enc + private.public_key().public_bytes_raw(), 32)
    context = b"\0" + labeled_extract(suite, b"", b"psk_id_hash", b"") + labeled_extract(suite, b"", b"info_hash", info)
    secret = labeled_extract(suite, shared, b"secret", b"")
    key = labeled_expand(suite, secret, b"key", context, 32)
    return AESGCM(key).decrypt(labeled_expand(suite, secret, b"base_nonce", context, 12), ciphertext, b"")


def records(data, known):
    at, out = 0, []
    while at < len(data):
        demand(at + 8 <= len(data), "SealStructure")
        kind, zero, length = struct.unpack_from("<HHI", data, at)
        demand(at + 8 + length <= len(data), "SealStructure")
        if kind in known:
            demand(zero == 0 and length in known[kind], "SealStructure")
        out.append((kind, data[at + 8:at + 8 + length]))
        at += 8 + length
    return out


def check_signatures(signed, case, message, statement):
    good = set()
    for public in map(bytes.fromhex, case.get("trust", [])):
        key_id = H(label("ed25519 key"), public)
        for name, signature in signed:
            if name == key_id:
                text = message + struct.pack("<H", 1) + key_id + statement
                try:
                    Ed25519PublicKey.from_public_bytes(public).verify(signature, text)
                except InvalidSignature:
                    raise Refused("SealBadSignature")
                good.add(key_id)
    if case.get("trust"):
        demand(len(good) >= case.get("threshold", 1), "SealNoTrustedSignature")


def unwrap_one(kind, payload, key, uuid):
    if kind == 1 and "x25519" in key:
        secret = bytes.fromhex(key["x25519"])
        public = X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()
        if payload[:32] in (bytes(32), H(label("x25519 key"), public)):
            return hpke_open(secret, payload[32:64], label("hpke") + uuid, payload[64:])
    if kind == 2 and "passphrase" in key:
        memory, passes, lanes = struct.unpack_from("<III", payload, 16)
        demand(1 <= lanes <= 16 and 1 <= passes <= 64 and 8 * lanes <= memory <= 1 << 20, "SealLimit")
        hashed = Argon2id(salt=payload[:16], length=32, iterations=passes, lanes=lanes, memory_cost=memory)
        secret = hkdf(uuid, hashed.derive(bytes.fromhex(key["passphrase"])), label("passphrase"))
        return AESGCM(secret).decrypt(payload[28:40], payload[40:], label("passphrase") + uuid + payload[:28])
    if kind == 3 and "raw" in key:
        name = payload[60:]
        secret = hkdf(uuid, bytes.fromhex(key["raw"]), label("raw key") + name)
        return AESGCM(secret).decrypt(payload[:12], payload[12:60], label("raw key") + uuid + name)
    return None


def unwrap(slots, keys, uuid):
    for key in keys:
        for kind, payload in slots:
            try:
                found = unwrap_one(kind, payload, key, uuid)
            except InvalidTag:
                continue
            if found is not None:
                return found
    raise Refused("SealNoKey")


def decrypt(key, uuid, module, ordinal, stored, step):
    count = -(-len(stored) // (step + 16))
    out = []
    for number in range(count):
        last = number == count - 1
        nonce = struct.pack("<QI", number, last)
        aad = uuid + struct.pack("<BBHIQ", module, last, 0, ordinal, number)
        part = stored[number * (step + 16):(number + 1) * (step + 16)]
        try:
            out.append(AESGCM(key).decrypt(nonce, part, aad))
        except InvalidTag:
            raise Refused("SealSegment")
    return b"".join(out)


def entries(index, count_there):
    count, reserved = struct.unpack_from("<II", index)
    demand((count, reserved) == (count_there, 0), "SealStructure")
    at, out = 8, []
    for _ in range(count):
        start = at + 2
        (length,) = struct.unpack_from("<H", index, at)
        name = index[start:start + length].decode()
        dtype, rank = index[start + length], index[start + length + 1]
        at = start + length + 2
        shape = struct.unpack_from(f"<{rank}Q", index, at)
        at += 8 * rank
        identity = index[start - 2:at]
        offset, size, raw_size, flags = struct.unpack_from("<QQQI", index, at)
        at += 28
        out.append((name, dtype, shape, identity, offset, size, raw_size, flags))
    demand(at == len(index), "SealStructure")
    return out


class File:
    """A file, opened in the order that the specification requires."""

    def __init__(self, data, case):
        self.data, self.case = data, case
        self.front()
        self.body()
        self.statement = H(label("statement"), data[:32], H(self.metadata), H(self.index), H(self.body_bytes))
        signatures = records(self.part(self.signatures_at, self.signatures_size), {1: (96,)})
        signed = [(r[:32], r[32:]) for kind, r in signatures if kind == 1]
        check_signatures(signed, case, label("signature"), self.statement)
        demand(case.get("statement") in (None, self.statement.hex()), "SealSet")
        demand(self.revision >= case.get("min_revision", 0), "SealRevision")
        self.prk, keys = None, case.get("keys", [])
        slots = self.slots() if self.flags & ENCRYPTED else None
        if keys and slots:
            self.unlock(*slots, keys)
        self.tensors = []
        if self.prk or not self.index_sealed:
            self.tensors = entries(self.index, len(self.extents))
            listed = [(t[4], t[5]) for t in self.tensors]
            demand(listed == [(o, s) for o, s, _ in self.extents], "SealExtent")

    def part(self, at, size):
        demand(0 <= at and at + size <= len(self.data), "SealStructure")
        return self.data[at:at + size]

    def front(self):
        data = self.data
        demand(len(data) >= 96 and data[:4] == b"APR2", "SealStructure")
        _, _, self.flags, _, metadata_size, index_offset, index_size, self.data_offset = struct.unpack_from("<HHIIIIII", data, 4)
        demand(self.flags & SIGNED or not self.case.get("trust"), "SealMissing")
        demand(self.flags & ENCRYPTED or not self.case.get("keys"), "SealMissing")
        demand(self.flags & (SIGNED | ENCRYPTED), "SealMissing")
        self.crc, end, size = struct.unpack("<I4sQ", data[-16:])
        magic, self.seal, body, pages, self.signatures_size, self.keys_size, self.prefix, zero = struct.unpack("<8sQQQIIII", data[-64:-16])
        demand((magic, end, size, zero) == (b"SEALEND1", b"2RPA", len(data), 0), "SealStructure")
        demand(self.seal + body + pages + self.signatures_size + self.keys_size + 64 == size, "SealStructure")
        demand(self.seal % 64 == 0 and self.seal >= self.data_offset, "SealStructure")
        demand((self.keys_size > 0) == bool(self.flags & ENCRYPTED), "SealStructure")
        self.pages_at = self.seal + body
        self.signatures_at = self.pages_at + pages
        self.metadata, self.index = self.part(32, metadata_size), self.part(index_offset, index_size)
        self.front_end, self.pages_size = index_offset + index_size, pages
        self.body_bytes = self.part(self.seal, body)

    def body(self):
        b = self.body_bytes
        magic, major, _, flags, self.uuid, self.revision, count, segment, page, reserved, index_size, at, self.commitment = \
            struct.unpack_from("<8sHHI16sQIBBHQQ32s", b)
        demand(magic == b"APR2SEAL", "SealStructure")
        demand(major == 1 and flags <= 1 and reserved == 0, "SealVersion")
        demand(len(b) == 96 + 48 * count + index_size and at == self.seal, "SealStructure")
        demand((segment > 0) == bool(self.flags & ENCRYPTED), "SealStructure")
        self.step, self.page, self.index_sealed = 1 << segment, 1 << page, flags == 1
        self.extents = [struct.unpack_from("<QQ32s", b, 96 + 48 * n) for n in range(count)]
        self.sealed_index = b[96 + 48 * count:]
        pages = sum(-(-s // self.page) for _, s, _ in self.extents if s > self.page)
        demand(32 * pages == self.pages_size, "SealStructure")
        ends = [o + s for o, s, _ in self.extents if s]
        demand(-(-max(ends, default=0) // 64) * 64 == self.seal - self.data_offset, "SealStructure")

    def slots(self):
        keys = self.part(self.signatures_at + self.signatures_size, self.keys_size)
        size, count, zero = struct.unpack_from("<IHH", keys)
        demand(size + 72 == len(keys) and zero == 0, "SealStructure")
        slots = records(keys[8:8 + size], {1: (112,), 2: (88,), 3: range(60, 1085)})
        demand(len(slots) == count, "SealStructure")
        return keys, slots

    def unlock(self, section, slots, keys):
        file_key = unwrap(slots, keys, self.uuid)
        self.prk = mac(self.uuid, file_key)
        demand(self.sub("commit") == self.commitment, "SealKeyCommitment")
        demand(mac(self.sub("keys mac"), section[:-32]) == section[-32:], "SealKeysMac")
        demand(mac(self.sub("statement mac"), self.statement) == section[-64:-32], "SealStatementMac")
        if self.index_sealed:
            plain = decrypt(self.sub("index"), self.uuid, 2, 0xFFFFFFFF, self.sealed_index, self.step)
            metadata, index, flags, zero = struct.unpack_from("<IIII", plain)
            demand(16 + metadata + index == len(plain) and zero == 0, "SealStructure")
            demand(flags & ~(COMPRESSED | QUANTIZED) == self.flags, "SealStructure")
            self.metadata, self.index = plain[16:16 + metadata], plain[16 + metadata:]

    def sub(self, purpose, extra=b""):
        return expand(self.prk, label(purpose) + extra, 32)

    def stored(self, n):
        offset, size, _ = self.extents[n]
        return self.part(self.data_offset + offset, size)

    def verify(self):
        self.digests()
        out = []
        for n, (name, dtype, shape, identity, _, _, raw_size, flags) in enumerate(self.tensors):
            if self.flags & ENCRYPTED and not self.prk:
                break
            values = self.stored(n)
            if self.flags & ENCRYPTED:
                key = self.sub("tensor", struct.pack("<I", n) + H(identity))
                values = decrypt(key, self.uuid, 1, n, values, self.step)
            demand(flags == (raw_size > 0), "SealStructure")
            if raw_size:
                values = decompressed(values, raw_size)
            elements, width = BLOCKS[dtype]
            count = 1
            for dim in shape:
                count *= dim
            demand(len(values) == count // elements * width, "SealStructure")
            out.append({"name": name, "shape": shape, "blake3": H(values).hex()})
        self.gaps()
        demand(zlib.crc32(self.data[:self.signatures_at]) == self.prefix, "SealCrc")
        demand(zlib.crc32(self.data[:-16]) == self.crc, "SealCrc")
        return out

    def digests(self):
        pages = []
        for n, (_, size, digest) in enumerate(self.extents):
            stored = self.stored(n)
            demand(H(stored) == digest, "SealDigest")
            count = -(-size // self.page) if size > self.page else 0
            pages.append((stored, digest, count))
        at = self.pages_at
        for stored, digest, count in pages:
            table = [self.part(at + 32 * n, 32) for n in range(count)]
            at += 32 * count
            if count:
                demand(root(table) == digest, "SealPages")
                page = count // 2  # one of them is slow enough
                data = stored[page * self.page:(page + 1) * self.page]
                demand(page_node(data, page * self.page // 1024) == table[page], "SealPages")

    def gaps(self):
        at = self.front_end
        places = sorted((self.data_offset + o, s) for o, s, _ in self.extents if s)
        for start, size in places + [(self.seal, 0)]:
            demand(not any(self.data[at:start]), "SealGap")
            at = max(at, start + size)


def a_file(case):
    data = bytearray(open(case["file"], "rb").read())
    if "offset" in case:
        data[case["offset"]] ^= case["xor"]
    file = File(bytes(data), case)
    tensors = file.verify()
    metadata = json.loads(file.metadata)
    names = [tensor[0] for tensor in file.tensors]
    return {"tensors": tensors, "names": names, "statement": file.statement.hex(), "metadata": metadata}


def a_set(case):
    folder = case["file"].rsplit("/", 1)[0]
    manifest = json.load(open(case["file"], encoding="utf-8"))
    demand("seal" in manifest, "SealMissing")
    seal, shards, homes = manifest["seal"], manifest["shards"], manifest["tensor_shard_map"]
    statements = [bytes.fromhex(text) for text in seal["statements"]]
    demand(len(statements) == len(shards) == manifest["shard_count"], "SealStructure")
    text = label("set") + bytes.fromhex(seal["set_uuid"]) + struct.pack("<QI", seal["revision"], len(shards))
    for shard, statement in zip(shards, statements):
        name = shard["file"].encode()
        text += struct.pack("<H", len(name)) + name + statement
    text += struct.pack("<I", len(homes))
    for name in sorted(homes, key=str.encode):
        text += struct.pack("<H", len(name.encode())) + name.encode() + struct.pack("<I", homes[name])
    statement = H(text)
    signed = [(bytes.fromhex(s["key_id"]), bytes.fromhex(s["signature"])) for s in seal["signatures"] if s["alg"] == "ed25519"]
    check_signatures(signed, case, label("set signature"), statement)
    demand(seal["revision"] >= case.get("min_revision", 0), "SealRevision")
    out, found = [], {}
    for number, (shard, expected) in enumerate(zip(shards, statements)):
        one = dict(case, file=folder + "/" + shard["file"], trust=[], statement=expected.hex())
        opened = a_file(one)
        data = open(one["file"], "rb").read()
        demand(len(data) == shard["size"] and f"{zlib.crc32(data):08x}" == shard["crc32"], "SealCrc")
        out += opened["tensors"]
        for name in opened["names"]:
            demand(name not in found, "SealStructure")
            found[name] = number
    demand(homes == {} or found == homes, "SealSet")
    return {"tensors": out, "statement": statement.hex()}


def run(case):
    try:
        return dict((a_set if case.get("set") else a_file)(case), outcome="ok")
    except Refused as refused:
        return {"outcome": str(refused)}


print(json.dumps([run(case) for case in json.load(open(sys.argv[1], encoding="utf-8"))]))
