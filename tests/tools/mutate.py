#!/usr/bin/env python3
"""Mutation testing: makes random small faults in the engine and tells which of them the tests notice.

    tests/tools/mutate.py                                   300 mutants of all files of TESTS_OF below
    tests/tools/mutate.py --count 40 engine/text/stop_strings.cpp
    tests/tools/mutate.py --seed 7 engine/cache             the mutants of a seed, in a folder's files
    tests/tools/mutate.py --list engine/sample              every place that can be mutated; nothing is run
    tests/tools/mutate.py --only 7 --seed 7 …               of these, mutant 7 alone

A mutant is one change: another comparison (< becomes <=), another operation (+ becomes -), a number that is
off by one, a negated or fixed condition, a statement or an update that is left out. Comments, texts,
assertions, errors and log messages, and what the compiler computes (constexpr, templates, types) are left alone.

All mutants of a file are compiled once (mutant schemata, Untch et al. 1993): each place asks whether its
number is the one in the environment variable ORRERY_MUTANT. The object is linked in place of the library's
with the test programs that cover the file, which are then run once for each mutant until one of them fails.
A test that takes far more time of the processor than without a mutant has failed too.

The build folder (--build, default build/release) must be configured; the test programs are built there first.
Mutated objects and programs go to a folder of their own and are removed.

Prints one JSON object a line: {"file", "line", "kind", "status": "caught" or "survived", "by", "diff"} for
each mutant ("by": the test that noticed), then {"seed", "mutants", "caught", "survived", "score"}. The exit
status is 1 where fewer than --least percent were caught (default 90).
"""

import argparse
import json
import os
import random
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# The test programs that cover each file, the quickest first.
CACHE = ["tst_block_pool", "tst_block_store", "tst_prefix_index", "tst_scheduler", "tst_engine", "tst_same_tokens"]
SAMPLE = ["tst_random", "tst_penalties", "tst_sampler_stages", "tst_sampler", "tst_engine"]
DRAW = ["tst_truncation", "tst_draw", "tst_sampler_stages", "tst_sampler", "tst_engine"]
TESTS_OF = {
    "engine/text/stop_strings.cpp": ["tst_stop_strings"],
    "engine/cache/block_pool.cpp": CACHE,
    "engine/cache/block_store.cpp": CACHE,
    "engine/sample/penalties.cpp": SAMPLE,
    "engine/sample/random.cpp": SAMPLE,
    "engine/sample/sampler.cpp": SAMPLE,
    "kernels/sampling/candidates.cpp": DRAW,
    "kernels/sampling/truncation.cpp": DRAW,
    "engine/schedule/scheduler.cpp": [
        "tst_scheduler", "tst_step_reports", "tst_engine", "tst_engine_ends", "tst_same_tokens"
    ],
}

# ---------------------------------------------------------------- what the mutated file is compiled with

# `a < b` is compiled as `a < less_or_equal<7>() < b`: the object between remembers `a`, and the comparison
# with `b` is the one that the mutant asks for. Precedence and grouping stay those of the operator.
HEADER = """#pragma once
#include <cstdlib>
#include <utility>
namespace orrery_mutate {
inline const int chosen = [] { const char* text = std::getenv("ORRERY_MUTANT"); return text ? std::atoi(text) : 0; }();
inline bool is(int number) { return chosen == number; }
template <int number, class T> T off_by(T value, T by) { return is(number) ? static_cast<T>(value + by) : value; }
template <int number> struct Negated {
    template <class T> auto operator+=(const T& value) { return is(number) ? -value : +value; }
    template <class T> auto operator-=(const T& value) { return is(number) ? -value : +value; }
};
"""

OPERATORS = {  # name, operator, what it becomes
    "<": [("less_1", "<="), ("less_2", ">=")],
    "<=": [("less_equal_1", "<"), ("less_equal_2", ">")],
    ">": [("greater_1", ">="), ("greater_2", "<=")],
    ">=": [("greater_equal_1", ">"), ("greater_equal_2", "<")],
    "==": [("equal_1", "!=")],
    "!=": [("unequal_1", "==")],
    "+": [("plus_1", "-")],
    "-": [("minus_1", "+")],
    "*": [("times_1", "+")],
    "/": [("over_1", "*")],
    "%": [("modulo_1", "+")],
}


def header():
    text = HEADER
    for operator, others in OPERATORS.items():
        for name, other in others:
            text += (
                f"template <int number> struct {name} {{}};\n"
                f"template <int number, class L> struct {name}_left {{ const L& left; }};\n"
                f"template <int number, class L> {name}_left<number, L> operator{operator}(const L& left, "
                f"{name}<number>) {{ return {{left}}; }}\n"
                f"template <int number, class L, class R> auto operator{operator}({name}_left<number, L> a, "
                f"const R& right) {{ return is(number) ? a.left {other} right : a.left {operator} right; }}\n"
            )
    return text + "}\n"


# ---------------------------------------------------------------- where a file can be mutated


def masked(source):
    """The source with comments, texts and characters blanked, of the same length."""
    pattern = re.compile(
        r'R"\(.*?\)"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*.*?\*/|^[ \t]*#[^\n]*',
        re.DOTALL | re.MULTILINE,
    )
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), source)


def closing(text, at):
    """The place of the bracket that closes the one at a place."""
    depth = 0
    for i in range(at, len(text)):
        depth += text[i] in "([{"
        depth -= text[i] in ")]}"
        if depth == 0:
            return i
    return -1


def brackets(text):
    """For each place the innermost open bracket, or none."""
    stack, innermost = [], []
    for c in text:
        if c in ")]}" and stack:
            stack.pop()
        innermost.append(stack[-1] if stack else "")
        if c in "([{":
            stack.append(c)
    return innermost


class Site:
    """A place and its change: insertions into the file, and what stands there instead for people."""

    def __init__(self, kind, at, insertions, shown):
        self.kind, self.at, self.insertions, self.shown = kind, at, insertions, shown


# A statement that the compiler computes, or that only speaks to people.
LEFT_ALONE = re.compile(
    r"\b(constexpr|static_assert|assert|template|using|throw|Error|fail|spdlog|case|requires|static|inline|enum)\b"
)
KEYWORD = re.compile(
    r"(return|if|for|while|do|switch|throw|using|case|default|else|const|auto|static|delete|namespace|template|"
    r"struct|class|public|private|goto|try|catch|typedef|friend|explicit|virtual)\b"
)
PLACE = r"(?:\+\+|--|\*)?[A-Za-z_][\w:]*(?:(?:\.|->)\w+|\[[^\]]*\]|\([^;{}]*?\))*"
STATEMENT = re.compile(rf"{PLACE}\s*(?:=|\+=|-=|\*=|/=|\|=|&=|\^=|\+\+|--|;)(?!=)")


def sites(source):
    text = masked(source)
    innermost = brackets(text)

    def statement_around(at):
        begin = max(text.rfind(c, 0, at) for c in ";{}") + 1
        ends = [i for i in (text.find(c, at) for c in ";{}") if i >= 0]
        return source[begin : min(ends) if ends else len(text)]

    found = []

    # What proves the books is an assertion of several lines.
    proofs = [
        range(match.start(), closing(text, match.end() - 1))
        for match in re.finditer(r"check_integrity\([^;{}]*\) const \{", text)
    ]

    def add(kind, at, insertions, shown):
        if not LEFT_ALONE.search(statement_around(at)) and not any(at in proof for proof in proofs):
            found.append(Site(kind, at, insertions, shown))

    for match in re.finditer(r"(?<=[^\s(,]) (<=|>=|==|!=|<|>|\+|-|\*|/|%) (?=\S)", text):
        operator = match[1]
        if re.search(r"\boperator$", text[: match.start()]):
            continue
        kind = "arithmetic" if operator in "+-*/%" else "comparison"
        for name, other in OPERATORS[operator]:
            end = match.end()
            add(
                kind,
                match.start(1),
                [(end, 1, lambda n, name=name, operator=operator: f"orrery_mutate::{name}<{n}>() {operator} ")],
                (match.start(1), match.end(1), other),
            )
    # The line's first operand may stand after a line break.
    for match in re.finditer(r" (&&|\|\|)(?=\s)", text):
        fixed = "!orrery_mutate::is({0}) &&" if match[1] == "&&" else "orrery_mutate::is({0}) ||"
        shown = "&& false &&" if match[1] == "&&" else "|| true ||"
        add(
            "condition",
            match.start(1),
            [(match.end(1), 1, lambda n, fixed=fixed: " " + fixed.format(n))],
            (match.start(1), match.end(1), shown),
        )
    for match in re.finditer(r"(?<![\w.'<])(\d+)(?![\w.'>])", text):
        for by in (1, -1):
            if by < 0 and match[1] == "0":
                continue
            begin, end = match.span(1)
            add(
                "off by one",
                begin,
                [
                    (begin, 3, lambda n, by=by: f"orrery_mutate::off_by<{n}>("),
                    (end, -3, lambda n, by=by: f", {by})"),
                ],
                (begin, end, str(int(match[1]) + by)),
            )
    for match in re.finditer(r"\b(if|while) \(", text):
        open_at = match.end() - 1
        end = closing(text, open_at)
        begin = max(open_at, text.rfind(";", open_at, end)) + 1
        condition = text[begin:end]
        if end < 0 or re.match(r"\s*(?:const )?[\w:<>]+[*&]* [*&]?\w+ = ", condition):
            continue
        lead = len(condition) - len(condition.lstrip())
        add(
            "condition",
            begin + lead,
            [
                (begin + lead, 2, lambda n: f"orrery_mutate::is({n}) != static_cast<bool>("),
                (end, -2, lambda n: ")"),
            ],
            (begin + lead, end, f"!({source[begin + lead:end]})"),
        )
    for match in re.finditer(r" (\+=|-=) ", text):
        operator = match[1]
        add(
            "arithmetic",
            match.start(1),
            [(match.end(), 2, lambda n, operator=operator: f"orrery_mutate::Negated<{n}>() {operator} ")],
            (match.start(1), match.end(1), "-=" if operator == "+=" else "+="),
        )
    for match in re.finditer(r"^[ \t]+(?=\S)", text, re.MULTILINE):
        begin = match.end()
        before = text[:begin].rstrip()
        if innermost[begin] not in ("{", "") or not re.search(r"(?:[{};):]|\belse)$", before):
            continue
        end = begin
        while end < len(text) and text[end] not in ";{}":
            end = closing(text, end) + 1 if text[end] in "([" else end + 1
        if end >= len(text) or text[end] != ";":
            continue
        statement = text[begin : end + 1]
        jump = statement in ("continue;", "break;", "return;")
        if not jump and (KEYWORD.match(statement) or not STATEMENT.match(statement)):
            continue
        add(
            "dropped statement",
            begin,
            [
                (begin, 0, lambda n: f"{{ if (!orrery_mutate::is({n})) {{ "),
                (end + 1, 9, lambda n: " } }"),
            ],
            (begin, end + 1, ";"),
        )
    return found


def instrumented(source, numbered):
    """The source with the insertions of mutants, (number, site). Line numbers stay."""
    insertions = []
    for number, site in numbered:
        for at, order, text in site.insertions:
            # What ends at a place comes before what begins there, the inner one first.
            key = (1, order, number) if 0 <= order < 9 else (0, min(order, 0), -number)
            insertions.append((at, key, text(number)))
    out, done = [], 0
    for at, _, text in sorted(insertions, key=lambda entry: entry[:2]):
        out += [source[done:at], text]
        done = at
    return "".join(out) + source[done:]


def difference(source, site):
    begin, end, shown = site.shown
    first = source.rfind("\n", 0, begin) + 1
    last = source.find("\n", end)
    before = source[first:last]
    after = source[first:begin] + shown + source[end:last]
    return [*("- " + line for line in before.split("\n")), *("+ " + line for line in after.split("\n"))]


# ---------------------------------------------------------------- building and running


class Build:
    def __init__(self, folder, scratch):
        self.folder, self.scratch = folder, scratch
        with open(folder / "compile_commands.json") as file:
            self.commands = {entry["file"]: entry for entry in json.load(file)}
        (scratch / "mutate.h").write_text(header())

    def tests(self, names):
        """Those of the test programs that exist, built."""
        listed = subprocess.run(
            ["ninja", "-C", self.folder, "-t", "targets", "all"], capture_output=True, text=True, check=True
        ).stdout
        present = [name for name in names if re.search(rf"^{name}: phony", listed, re.MULTILINE)]
        subprocess.run(["ninja", "-C", self.folder, *present], stdout=sys.stderr, check=True)
        return present

    def compile(self, path, chosen, spare):
        """Compiles a file with those mutants that can be compiled; others are replaced from `spare`. Returns
        the object, the mutants, (number, site), and the source."""
        source = (ROOT / path).read_text()
        entry = self.commands[str(ROOT / path)]
        words = shlex.split(entry["command"])
        copy, target = self.scratch / Path(path).name, self.scratch / (Path(path).name + ".o")
        arguments = []
        skip = False
        for word in words:
            if skip or word in ("-c", "-o"):
                skip = word == "-o"
                continue
            if word not in (str(ROOT / path),) and not re.match(r"-O|-g|-W", word):
                arguments.append(word)
        # Checked containers: an index out of bounds is noticed at once.
        command = [*arguments, "-O1", "-w", "-D_GLIBCXX_ASSERTIONS"]
        command += ["-include", str(self.scratch / "mutate.h"), "-o", str(target), "-c", str(copy)]
        chosen = list(chosen)
        while True:
            numbered = list(enumerate(chosen, 1))
            copy.write_text(instrumented(source, numbered))
            result = subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True)
            if result.returncode == 0:
                return target, numbered, source
            lines = {int(line) for line in re.findall(rf"{re.escape(str(copy))}:(\d+):", result.stderr)}
            good = [site for site in chosen if source.count("\n", 0, site.at) + 1 not in lines]
            if len(good) == len(chosen):
                sys.exit(f"{path} cannot be compiled with mutants:\n{result.stderr[:3000]}")
            replacements = [spare.pop() for _ in range(min(len(spare), len(chosen) - len(good)))]
            chosen = good + replacements

    def link(self, test, target):
        listed = subprocess.run(
            ["ninja", "-C", self.folder, "-t", "commands", test], capture_output=True, text=True, check=True
        ).stdout
        command = listed.strip().split("\n")[-1].removeprefix(": && ").removesuffix(" && :")
        words = shlex.split(command)
        program = self.scratch / f"{test}-{target.stem}"
        at = words.index("-o")
        words[at + 1] = str(program)
        words.insert(at + 2, str(target))
        subprocess.run(words, cwd=self.folder, check=True)
        return program


def run(program, mutant, cpu_seconds):
    """Whether a test program passes, and the seconds of the processor that it took."""

    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.nice(5)

    environment = {**os.environ, "ORRERY_MUTANT": str(mutant), "QT_QPA_PLATFORM": "offscreen"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        # A mutant may also wait for ever without computing.
        status = subprocess.run(
            [program], env=environment, preexec_fn=limit, timeout=20 * cpu_seconds,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        ).returncode
    except subprocess.TimeoutExpired:
        status = 1
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return status == 0, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="files of the table TESTS_OF, or folders of them; default: all")
    parser.add_argument("--count", type=int, default=300, help="mutants in all")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--least", type=float, default=90, help="percent that have to be caught")
    parser.add_argument("--only", type=int, default=None, help="run this mutant alone")
    parser.add_argument("--list", action="store_true", help="print every place and run nothing")
    options = parser.parse_args()
    files = [
        path
        for path in TESTS_OF
        if not options.files or any((path + "/").startswith(name.rstrip("/") + "/") for name in options.files)
    ]
    if not files:
        parser.error("no test program is known for these files")

    places = [(path, site) for path in files for site in sites((ROOT / path).read_text())]
    if options.list:
        for path, site in places:
            source = (ROOT / path).read_text()
            print(json.dumps({"file": path, "line": source.count("\n", 0, site.at) + 1, "kind": site.kind,
                              "diff": difference(source, site)}, ensure_ascii=False))
        return 0
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}", file=sys.stderr)
    random.Random(seed).shuffle(places)
    chosen, spare = places[: options.count], places[options.count :]

    caught = survived = 0
    scratch = Path(tempfile.mkdtemp(prefix="orrery-mutate-"))
    try:
        build = Build(options.build.resolve(), scratch)
        number = 0
        for path in files:
            mine = [site for its_path, site in chosen if its_path == path]
            if not mine:
                continue
            target, mutants, source = build.compile(path, mine, [s for p, s in spare if p == path])
            programs = []
            for test in build.tests(TESTS_OF[path]):
                program = build.link(test, target)
                passes, seconds = run(program, 0, 600)
                if not passes:
                    sys.exit(f"{test} fails without a mutant of {path}")
                programs.append((test, program, int(5 + 4 * seconds)))
            for mutant, site in mutants:
                number += 1
                if options.only not in (None, number):
                    continue
                by = next((test for test, program, limit in programs if not run(program, mutant, limit)[0]), None)
                caught += by is not None
                survived += by is None
                print(json.dumps({"mutant": number, "file": path, "line": source.count("\n", 0, site.at) + 1,
                                  "kind": site.kind, "status": "caught" if by else "survived", "by": by,
                                  "diff": difference(source, site)}, ensure_ascii=False), flush=True)
    finally:
        shutil.rmtree(scratch)
    total = caught + survived
    score = 100 * caught / total if total else 0.0
    print(json.dumps({"seed": seed, "mutants": total, "caught": caught, "survived": survived,
                      "score": round(score, 1)}))
    return 0 if score >= options.least else 1


if __name__ == "__main__":
    sys.exit(main())
