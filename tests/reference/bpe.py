#!/usr/bin/env python3
"""bpe.py: byte-level BPE as GPT-2 has it, written down from its definition and slow on purpose.

  bpe.py learn TEXT MERGES vocab.json merges.txt   learns so many merges from a text and writes both files
  bpe.py encode vocab.json merges.txt TEXT         prints the numbers of the tokens, one a line

Words are cut by hand with the categories of unicodedata instead of a regular expression.
"""
import json
import sys
import unicodedata

SPACE = set(map(chr, [*range(9, 14), 32, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]))


def byte_names():
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    names = {b: chr(b) for b in plain}
    for n, b in enumerate(b for b in range(256) if b not in names):
        names[b] = chr(256 + n)
    return names


NAMES = byte_names()


def kind(c):
    if c in SPACE:
        return "space"
    return {"L": "letter", "N": "number"}.get(unicodedata.category(c)[0], "other")


def words(text):
    at = 0
    while at < len(text):
        if text[at] == "'":
            tail = next((t for t in ("s", "t", "re", "ve", "m", "ll", "d") if text.startswith(t, at + 1)), None)
            if tail:
                yield text[at : at + 1 + len(tail)]
                at += 1 + len(tail)
                continue
        start = at + 1 if text[at] == " " and at + 1 < len(text) and kind(text[at + 1]) != "space" else at
        k = kind(text[start])
        end = start
        while end < len(text) and kind(text[end]) == k:
            end += 1
        # Of white space before a word, the last character stays with the word, or by itself.
        if k == "space" and end < len(text) and end - at > 1:
            end -= 1
        yield text[at:end]
        at = end


def symbols(word):
    return [NAMES[b] for b in word.encode()]


def merge(parts, pair):
    out, i = [], 0
    while i < len(parts):
        if i + 1 < len(parts) and (parts[i], parts[i + 1]) == pair:
            out.append(parts[i] + parts[i + 1])
            i += 2
        else:
            out.append(parts[i])
            i += 1
    return out


def learn(text, n):
    counted = {}
    for w in words(text):
        counted[w] = counted.get(w, 0) + 1
    parts = {w: symbols(w) for w in counted}
    merges = []
    for _ in range(n):
        pairs = {}
        for w, p in parts.items():
            for pair in zip(p, p[1:]):
                pairs[pair] = pairs.get(pair, 0) + counted[w]
        if not pairs:
            break
        best = max(pairs, key=lambda p: (pairs[p], p))
        merges.append(best)
        parts = {w: merge(p, best) for w, p in parts.items()}
    return merges


def encode(vocab, merges, text):
    rank = {pair: i for i, pair in reversed(list(enumerate(merges)))}
    for w in words(text):
        parts = symbols(w)
        while True:
            pairs = [p for p in zip(parts, parts[1:]) if p in rank]
            if not pairs:
                break
            parts = merge(parts, min(pairs, key=rank.get))
        for p in parts:
            yield vocab[p]


def read(path):
    with open(path, encoding="utf-8", newline="") as f:
        return f.read()


def main(verb, *a):
    if verb == "learn":
        merges = learn(read(a[0]), int(a[1]))
        tokens = [NAMES[b] for b in range(256)] + list(dict.fromkeys(x + y for x, y in merges)) + ["<|endoftext|>"]
        with open(a[2], "w", encoding="utf-8") as f:
            json.dump({t: i for i, t in enumerate(tokens)}, f)
        with open(a[3], "w", encoding="utf-8") as f:
            f.write("#version: 0.2\n" + "".join(f"{x} {y}\n" for x, y in merges))
    else:
        merges = [tuple(line.split(" ")) for line in read(a[1]).split("\n")[1:] if line]
        for n in encode(json.loads(read(a[0])), merges, read(a[2])):
            print(n)


main(*sys.argv[1:])
