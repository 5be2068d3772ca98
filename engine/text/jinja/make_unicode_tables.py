#!/usr/bin/env python3
"""Writes unicode_tables.inc: the character classes and case mappings of Python's str, as compact ranges.

Usage: make_unicode_tables.py > unicode_tables.inc
"""
import sys
import unicodedata

ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def ranges(name, predicate):
    found = []
    for c in ALL:
        if predicate(chr(c)):
            if found and found[-1][1] == c - 1:
                found[-1][1] = c
            else:
                found.append([c, c])
    emit(f"constexpr Range {name}[]", [f"{{0x{a:x}, 0x{b:x}}}" for a, b in found])


def emit(declaration, items):
    print(f"{declaration} = {{")
    line = "   "
    for item in items:
        if len(line) + len(item) + 2 > 108:
            print(line)
            line = "   "
        line += f" {item},"
    print(line)
    print("};\n")


def mapping(name, function):
    """One character to one: runs of equal distance, with a stride of one or two."""
    pairs = [(c, ord(function(chr(c)))) for c in ALL if len(function(chr(c))) == 1 and function(chr(c)) != chr(c)]
    runs = []
    for c, to in pairs:
        if runs:
            first, last, stride, delta = runs[-1]
            step = c - last
            if to - c == delta and (step == stride or (first == last and step in (1, 2))):
                runs[-1] = [first, c, step, delta]
                continue
        runs.append([c, c, 1, to - c])
    emit(f"constexpr CaseRun {name}[]", [f"{{0x{a:x}, 0x{b:x}, {s}, {d}}}" for a, b, s, d in runs])


def special(name, function, differs_from):
    """One character to several, or to another one than `differs_from` gives."""
    items = []
    for c in ALL:
        to = function(chr(c))
        if (len(to) > 1 and differs_from is None) or (differs_from is not None and to != differs_from(chr(c))):
            codes = [f"0x{ord(x):x}" for x in to] + ["0"] * (3 - len(to))
            items.append(f"{{0x{c:x}, {{{', '.join(codes)}}}}}")
    emit(f"constexpr CaseSpecial {name}[]", items)


print(f"// Unicode {unicodedata.unidata_version}; written by make_unicode_tables.py. clang-format off\n")
ranges("alpha_ranges", str.isalpha)
ranges("decimal_ranges", str.isdecimal)
ranges("digit_ranges", str.isdigit)
ranges("numeric_ranges", str.isnumeric)
ranges("unprintable_ranges", lambda c: not c.isprintable())
ranges("lowercase_ranges", str.islower)
ranges("uppercase_ranges", str.isupper)
ranges("titlecase_ranges", lambda c: unicodedata.category(c) == "Lt")
mapping("lower_runs", str.lower)
mapping("upper_runs", str.upper)
special("lower_specials", str.lower, None)
special("upper_specials", str.upper, None)
special("title_specials", str.title, str.upper)
special("casefold_specials", str.casefold, str.lower)
