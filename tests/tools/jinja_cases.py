#!/usr/bin/env python3
"""Writes tests/engine/text/jinja_cases.json: templates and what Jinja 2 makes of them.

The environment has the settings that Hugging Face's chat templates are rendered with. Each case is
{template, expect} or {template, error}; all share one context, and the clock stands still.

Usage: pip install jinja2 && tests/tools/jinja_cases.py > tests/engine/text/jinja_cases.json
"""
import copy
import datetime
import itertools
import json
import re
import sys
import warnings

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

warnings.simplefilter("ignore")

CONTEXT = {
    "text": "Hello, World",
    "empty": "",
    "lines": "one\ntwo\n\n  three\r\nfour",
    "unicode": "Ünïcödé ßtraße 你好 🌍",
    "spaces": "  \t padded words here \n",
    "number": 42,
    "negative": -7,
    "zero": 0,
    "real": 3.75,
    "yes": True,
    "no": False,
    "nothing": None,
    "list": [3, 1, 2],
    "words": ["pear", "Apple", "fig", "apple"],
    "nested": [[1, 2], [3, [4, 5]]],
    "dict": {"b": 1, "a": 2, "items": 3},
    "people": [
        {"name": "Ann", "age": 31, "city": {"name": "Paris"}},
        {"name": "bob", "age": 25, "city": {"name": "Rome"}},
        {"name": "Cy", "age": 31, "city": {"name": "paris"}},
        {"name": "Dee", "age": 19},
    ],
    "tree": [{"n": 1, "c": [{"n": 2, "c": []}, {"n": 3, "c": [{"n": 4, "c": []}]}]}, {"n": 5, "c": []}],
    "html": "<a href=\"x\">it's & that</a>",
    "big": 9007199254740993,
    "bos_token": "<s>",
}


class Generation(jinja2.ext.Extension):
    """{% generation %} … {% endgeneration %} marks what the model wrote; it renders as it stands."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda f: datetime.datetime(2025, 7, 26, 12, 0, 0).strftime(f)
    return env


def expressions():
    # Literals and how they print.
    yield from """1 1_000 0x1F 0o17 0b101 00 1.0 1.5e3 1e16 1e15 1e22 1.5E-5 0.0001 0.00001 1_0.5 123456789012345678
        1e400 -1e400 0.1+0.2 1/3 2/1 1e100 5e-324 -0.0 100000.0 123456.789e3 true True false none None [] () (1,) {}
        [1,2.0,'x'] (1,'a',none) {'a':1,2:'b'} "a\\nb" 'it\\'s' "\\x41\\u00e9\\U0001F30D\\101\\q" 'a'"b" ['a\\nb\\t\\\\']
        ["it's",'say "x"','both\\'"'] ['\\x00\\x7f\\xa0\\u200b\\u4f60'] [true,none] {'k':[1,{'z':()}]}
        [[],{},(),'',none] 1.e5 1.real 1..real""".split()
    # Arithmetic.
    values = ["7", "-7", "2", "0", "2.5", "-2.5", "true", "'ab'", "[1]", "(1,)", "none", "missing", "{'a':1}"]
    for op in ["+", "-", "*", "/", "//", "%", "**", "~"]:
        for a, b in itertools.product(values, values):
            yield f"{a} {op} {b}"
    for a, b in itertools.product(values, values):
        for op in ["==", "<", ">=", "in"]:
            yield f"{a} {op} {b}"
    for a in values:
        yield f"-{a}"
        yield f"+{a}"
        yield f"not {a}"
        yield f"{a} and 'x'"
        yield f"{a} or 'x'"
        yield f"'x' if {a} else 'y'"
        yield f"'x' if {a}"
        yield f"{a}[0]"
        yield f"{a}.foo"
        yield f"{a}['foo']"
        yield f"{a}[-1:]"
        yield f"{a}()"
    yield from [
        "2 + 3 * 4 - 1", "2 ** 3 ** 2", "-2 ** 2", "2 ** -1", "1 + 2 ~ 3 * 4", "'a' ~ 1 + 2", "7 // 2 * 2", "7 % 3 ~ 'x'",
        "1 < 2 < 3", "1 < 3 < 2", "1 == 1.0 == true", "3 > 2 > 1 != 5", "not 1 == 2", "not not 1", "1 not in [2]",
        "1 if 0 else 2 if 0 else 3", "(1 if 0) is defined", "a.b is defined", "1, 2", "(1, 2)[0]", "[1,2,3][1]",
        "[1,2,3].1", "[[1,2]].0.1", "'abc'.1", "'abc'[1]", "'abc'[9]", "'abc'[-1]", "[1,2][5]", "[1,2]['a']",
        "dict.a", "dict['a']", "dict.items", "dict['items']", "dict.keys", "dict.missing", "dict.missing.x",
        "dict.get('a')", "dict.get('x')", "dict.get('x', 5)", "dict.keys()", "dict.values()", "dict.items()",
        "dict.items()|list", "dict.keys()|length", "dict.pop('a')", "dict.update({})", "list.append(1)",
        "list.append is defined", "list.count(1)", "list.index(2)", "list.index(9)", "(1,2,1).count(1)", "list.sort()",
        "dict.copy()", "list.copy()", "dict|length", "(1.5).is_integer()", "(4.0).is_integer()", "(5).bit_length()",
        "range(3)", "range(3)|list", "range(1,10,3)|list", "range(5,0,-2)|list", "range(0)|list", "range(3)[1]",
        "range(3)[-1]", "range(3)[5]", "range(10)[2:8:2]|list", "range(200000)", "range(1.5)", "range()", "range(1,2,0)",
        "2 in range(3)", "range(3) == range(0,3)", "range(3)|length", "range(3)|sum", "dict(a=1,b=2)",
        "dict([('a',1)])", "dict({'x':1}, y=2)", "namespace(a=1).a", "namespace(a=1).b", "namespace(a=1)",
        "namespace({'x':2}).x", "'%s' % 'x'", "{1:'a', true:'b'}", "{1:'a', 1.0:'b'}[1]", "{[1]:2}", "{(1,2):3}[(1,2)]",
        "{(1,2):3}[1,2]", "[1,2,3] == [1,2,3]", "[1,2] < [1,3]", "(1,2) < (1,2,3)", "[1] == (1,)", "{'a':1} == {'a':1.0}",
        "'a' < 'b'", "'B' < 'a'", "'é' > 'z'", "none == none", "none < 1", "missing == missing2", "missing ~ 'x'",
        "missing + 'x'", "'x' + missing", "missing|length", "missing|list", "missing|string", "missing == ''", "missing == none",
        "raise_exception('boom')", "strftime_now('%Y-%m-%d')", "strftime_now('%d %b %Y %H:%M:%S %A %B %j %p %I %y %a %% %e|%-d|%U')",
        "strftime_now('Today: %d/%m/%y, %F %T %D %R %u %w %V %G %C %h')", "cycler('a','b').next()", "joiner('x')()",
        "foo()", "foo.bar()", "'x'()", "1()", "none.x", "true.real", "text.upper", "'a' is sameas 'a'", "[] is sameas []",
        "number is number and number is not string", "number is divisibleby 7", "number is divisibleby(5)", "3 is odd", "3 is even",
        "2 is eq 2", "2 is equalto 3", "2 is ge(2)", "1 is in [1,2]", "1 is not in [1,2]", "'a' is in 'abc'", "1 is lt 2 and 3 is gt 2",
        "list is sequence", "dict is sequence", "text is iterable", "number is iterable", "text is lower", "'abc' is lower", "'ABC' is upper",
        "'upper' is filter", "'nope' is filter", "'odd' is test", "text is callable", "range is callable", "text.upper is callable",
        "text is undefined", "missing is undefined", "nothing is none", "missing is none", "yes is true", "1 is true", "no is false",
        "0 is false", "yes is boolean", "1 is boolean", "1 is integer", "true is integer", "1.0 is float", "true is number",
        "dict.items() is iterable", "dict.items() is sequence", "(1,) is sequence", "missing is iterable", "missing is sequence",
        "missing is string", "missing is mapping", "text is escaped", "text|e is escaped", "number is foo", "1 is odd is true",
        "text|nope", "1 if true else text|nope", "(text|nope) if false else 1", "x.y.z", "x['y']", "text.upper().lower().title()", "text['upper']()",
        "text.__class__", "text.__class__.x", "dict.__len__", "().__class__.__bases__", "varargs", "caller", "loop",
        "*list", "foo(*list)", "dict(**dict)", "dict(**{'a':5})", "dict(*[[('a',5)]])", "dict(a=1, a=2)", "range(*[1,4])|list", "text.replace('l','L',1)",
        "text.replace('l', count=1)", "1 +", "(1", "[1,", "{1}", "{'a' 1}", "a b", "1 2", "a..b", "a.", "|x", "x|", "x is", "not", "!a", "a!b", "a ? b", "'abc",
        "1 = 2", "a[1:2:3:4]", "a[::]", "text[::]", "text[:]", "a[]", "@", "$x", "a;b", "'a' 'b'", "a if", "if", "{{}}", "1}", "[(])",
        "bos_token ~ 'x'", "none|default('d')", "none|default('d', true)", "missing|default('d')", "missing|default", "''|d('x', boolean=true)",
        "'\\é'", "\"\\u4f60\\u597d\"", "'\\N{DASH}'", "'\\x4'", "'a\\\nb'", "(1,2,3)[1:]", "[1,2,3][::-1]", "'héllo'[::-1]", "'héllo'[1:4:2]",
        "'abc'[1:none]", "'abc'['x':]", "dict[1:2]", "list[10:]", "list[-2:]", "list[:-1]", "list[::2]", "list[::0]", "list[5:1:-1]", "list[true]", "'abc'[-100:100]",
    ]
    # Slices with every sign of their three parts.
    for start, stop, step in itertools.product(["", "-3", "1", "9"], ["", "-1", "2", "-9"], ["", "2", "-1", "-2"]):
        yield f"'abcdé'[{start}:{stop}:{step}]"
    # Filters on many values.
    inputs = ["text", "empty", "lines", "unicode", "spaces", "number", "negative", "real", "yes", "nothing", "list", "words",
              "dict", "missing", "html", "nested", "(1,2)", "range(3)"]
    for f in ["abs", "capitalize", "count", "first", "last", "length", "list", "lower", "upper", "title", "trim", "string", "reverse|list",
              "float", "int", "round", "sort", "sum", "unique|list", "min", "max", "tojson", "items|list", "dictsort", "join", "join('-')",
              "e", "striptags", "wordcount", "indent", "indent(2, true)", "replace('l','L')", "center(20)", "default('d')", "tojson(indent=2)",
              "batch(2)|list", "slice(2)|list", "select|list", "reject|list", "map('string')|list", "filesizeformat", "urlencode", "safe", "attr('a')",
              "truncate(8)", "forceescape", "format", "xmlattr", "random2"]:
        for value in inputs:
            yield f"{value}|{f}"
    tests = ["boolean", "callable", "defined", "divisibleby 2", "escaped", "even", "odd", "false", "float", "integer", "iterable", "lower", "upper",
             "mapping", "none", "number", "sequence", "string", "true", "undefined", "in 'Hello, World'", "eq 42", "ne 42", "lt 10", "ge 10", "sameas none"]
    for t, value in itertools.product(tests, inputs):
        yield f"{value} is {t}"
    yield from [
        "3.14159|round(2)", "2.5|round", "3.5|round", "-2.5|round", "2.675|round(2)", "1234.5|round(-2)", "42|round(-1)", "45|round(-1)", "42.7|round(0,'floor')",
        "42.2|round(method='ceil')", "1.15|round(1)", "42|round(2)", "'x'|round", "1e308|round(3)", "42.55|round(1,'ceil')", "42.55|round(1,'oops')",
        "'42'|int", "' 42 '|int", "'42.9'|int", "'x'|int", "'x'|int(7)", "'0x1A'|int(base=16)", "'1A'|int(0,16)", "'0b11'|int(0,2)", "'077'|int(0,8)", "'1_000'|int",
        "'-5'|int", "'+5'|int", "'1e3'|int", "'inf'|int", "'nan'|int", "3.99|int", "-3.99|int", "none|int", "[]|int", "true|int", "'12abc'|int(default=3)", "''|int",
        "'3.5'|float", "'1e3'|float", "'x'|float", "'x'|float(1.5)", "'inf'|float", "'-Infinity'|float", "'nan'|float", "'1_0.5'|float", "none|float", "'.5'|float", "'5.'|float",
        "words|sort", "words|sort(reverse=true)", "words|sort(case_sensitive=true)", "words|sort(true)", "people|sort(attribute='age')|map(attribute='name')|list",
        "people|sort(attribute='age,name')|map(attribute='name')|list", "people|sort(attribute='name', reverse=true)|map(attribute='name')|join(',')", "[1,'a']|sort", "[none,1]|sort",
        "[[2,1],[1,2]]|sort", "people|sort(attribute='city.name')|length", "people[:3]|sort(attribute='city.name')|map(attribute='city.name')|list",
        "words|unique|list", "words|unique(case_sensitive=true)|list", "people|unique(attribute='age')|map(attribute='name')|list", "[1,1.0,true]|unique|list", "[[1],[1]]|unique|list",
        "words|min", "words|max", "people|max(attribute='age')", "[]|min", "[]|min is undefined", "words|min(case_sensitive=true)", "[3,1,2]|max",
        "people|sum(attribute='age')", "[1,2.5]|sum", "[1]|sum(start=10)", "[[1],[2]]|sum(start=[])", "['a']|sum", "[]|sum",
        "people|map(attribute='name')|list", "people|map(attribute='city.name')|list", "people|map(attribute='city.name', default='?')|list", "people|map(attribute='zip', default='none')|join(' ')",
        "words|map('upper')|list", "words|map('replace','p','P')|list", "words|map('truncate', 3, true, '')|list", "nested|map('first')|list", "nested|map(attribute=0)|list", "nested|map(attribute='1')|list",
        "words|map|list", "words|map('nope')|list", "words|map(attribute='x', foo=1)|list", "list|map('float')|join(',')", "missing|map('upper')|list",
        "list|select('odd')|list", "list|select('gt', 1)|list", "list|reject('odd')|list", "[0,1,'',none,'a']|select|list", "[0,1,'',none,'a']|reject|list", "list|select('nope')|list",
        "people|selectattr('age', 'gt', 25)|map(attribute='name')|list", "people|selectattr('city')|map(attribute='name')|list", "people|rejectattr('city')|map(attribute='name')|list",
        "people|selectattr('name','equalto','bob')|list", "people|selectattr('city.name','defined')|list|length", "people|selectattr|list", "people|rejectattr('age','in',[31])|map(attribute='name')|list",
        "people|selectattr('age','==',31)|map(attribute='name')|join", "words|select('in', ['fig'])|first", "list|select('divisibleby', 2)|list",
        "people|groupby('age')|map(attribute='grouper')|list", "people|groupby('age')|map(attribute='list')|map('length')|list", "people[:3]|groupby('city.name')|map('first')|list",
        "people|groupby('zip', default='-')|length", "people[:3]|groupby('city.name', case_sensitive=true)|map('first')|list", "people|groupby('age')|first", "words|groupby(0)|map('first')|list",
        "dict|dictsort", "dict|dictsort(by='value')", "dict|dictsort(reverse=true)", "{'B':1,'a':2}|dictsort", "{'B':1,'a':2}|dictsort(true)", "dict|dictsort(by='x')", "list|dictsort",
        "dict|items|list", "dict|items", "list|items", "[1,2,3,4,5]|batch(2)|list", "[1,2,3,4,5]|batch(2,'-')|list", "[1,2,3,4,5]|slice(2)|list", "[1,2,3,4,5]|slice(3,'x')|list", "[1,2]|slice(0)|list",
        "text|replace('o','0')", "text|replace('o','0',1)", "'aaa'|replace('a','b',2)", "'aaa'|replace('','-')", "'aaa'|replace('','-',2)", "text|replace(1,2)", "123|replace(2,'x')", "text|replace('l')",
        "text|truncate(5)", "text|truncate(9,true)", "text|truncate(9,false,'!',0)", "text|truncate(5,leeway=0)", "'one two three four'|truncate(10)", "'one two three four'|truncate(10, leeway=0)", "text|truncate(1)",
        "lines|indent", "lines|indent(2)", "lines|indent(2,true)", "lines|indent(2,false,true)", "lines|indent('> ')", "lines|indent(width='--', first=true, blank=true)", "''|indent", "''|indent(2,true)", "'a\n'|indent(1)",
        "text|center(20)", "'ab'|center(5)", "'abc'|center(6)", "text|wordcount", "'a_b c-d 你好'|wordcount", "'hello wORLD-foo (bar) [x'|title", "'ǆ ﬁ'|title", "'ß'|upper", "'İ'|lower", "'ΑΣ ΣΑ'|lower", "'éa'|capitalize",
        "'<b>x</b>'|striptags", "'a <!-- c --> b  &amp; c'|striptags", "html|e", "html|escape|escape", "html|forceescape|length", "(html|safe)|e", "'<'|e ~ '<'", "'<'|e + '<'", "'<' + ('>'|safe)", "('<'|safe) + '>'", "('<%s>'|safe) % '&'", "('<{}>'|safe).format('&')",
        "('a'|safe)|upper", "('a<'|safe).replace('a','<')", "('<'|safe).join(['<','>'])", "['<','>']|join('<'|safe)", "('<'|safe) * 2", "['<'|safe]", "('a,b'|safe).split(',')", "('x'|safe) is string", "('x'|safe)|string ~ '<'", "('x'|safe)|tojson",
        "1000|filesizeformat", "1|filesizeformat", "999|filesizeformat", "1500000|filesizeformat", "1500000|filesizeformat(true)", "'12'|filesizeformat", "1e30|filesizeformat", "'a b/c?d=é&'|urlencode", "{'a b':1,'c':'&'}|urlencode", "[('x',1)]|urlencode",
        "{'class':'x','id':none,'d':'<'}|xmlattr", "{'a b':1}|xmlattr", "{'a':1}|xmlattr(false)", "'%s is %d'|format('x',3)", "'%(a)s'|format(a=1)", "'%s'|format(1, a=2)",
        "dict|tojson", "dict|tojson(indent=2)", "dict|tojson(indent=0)", "dict|tojson(sort_keys=true)", "dict|tojson(separators=(',',':'))", "dict|tojson(indent='\t')", "nested|tojson(indent=1)", "unicode|tojson", "unicode|tojson(ensure_ascii=true)", "[]|tojson(indent=2)", "{}|tojson(indent=2)",
        "[[],{},[{}]]|tojson(indent=4)", "[1.0,1e20,-0.0,1e-7]|tojson", "[true,none,'x\"y\\\\z\\n\\t\\x01\\x7f']|tojson", "{1:2,none:3,true:4,1.5:5}|tojson", "{(1,2):3}|tojson", "missing|tojson", "dict.items()|tojson", "(1,2)|tojson", "range(2)|tojson", "text.upper|tojson", "dict|tojson(2)", "dict|tojson(foo=1)",
        "1e400|tojson", "dict|tojson(false, 2)", "namespace()|tojson", "dict|tojson(separators=(', ',' = '), indent=2)", "html|tojson", "'/'|tojson", "'\u2028'|tojson", "dict|tojson|length",
        "list|first", "list|last", "[]|first", "[]|last is defined", "dict|first", "dict|last", "'abc'|first", "''|first", "list|select('odd')|first", "list|select('odd')|last", "list|select('odd')|length", "list|map('string')", "5|first", "none|length", "5|length", "dict.items()|first", "dict|list",
        "list|reverse|list", "'abc'|reverse", "list|reverse|first", "5|reverse", "dict|attr('get')", "dict|attr('a')", "text|attr('upper')", "list|join(', ')", "words|join(1)", "people|join(', ', attribute='name')", "[1,none,true,missing]|join('|')", "5|join", "dict|join(',')", "'abc'|join('-')", "[['a']]|join",
        "-1|abs", "(-1)|abs", "-1.5|abs", "true|abs", "2|abs + 1", "-list|length", "1 + '2'|int", "'a'|upper ~ 'b'|upper", "not 'a'|upper == 'A'", "list|length > 2", "list|length is odd", "'a,b'.split(',')|last|upper", "text|upper|lower|title|length", "(text|upper)[0:3]", "text|lower is lower",
        "text|upper()", "text|default('a','b','c')", "text|trim('Hd')", "'xxaxx'|trim('x')", "spaces|trim", "none|trim", "5|trim", "'a'|list|length", "[1,2]|string", "1.0|string", "none|string", "(1,)|string", "'x'|format", "'%d'|format('x')", "'abc'|map('upper')|join", "1|default(2)|string",
    ]
    # Methods of str.
    subjects = ["text", "empty", "lines", "unicode", "spaces", "'aXbXc'", "'  a  b '", "'123'", "'Title Case'", "'ǅ'", "'١٢'", "'½'"]
    for m in ["capitalize()", "casefold()", "isalnum()", "isalpha()", "isascii()", "isdecimal()", "isdigit()", "isidentifier()", "islower()", "isnumeric()", "isprintable()", "isspace()",
              "istitle()", "isupper()", "lower()", "lstrip()", "rstrip()", "split()", "splitlines()", "splitlines(true)", "strip()", "swapcase()", "title()", "upper()", "rsplit()", "split('X')",
              "center(15,'*')", "ljust(15,'.')", "rjust(15)", "zfill(8)", "expandtabs(4)", "count('o')", "find('o')", "rfind('o')", "partition(' ')", "rpartition(' ')", "split(none,1)", "rsplit(none,1)", "replace('o','é')", "startswith('H')",
              "endswith('d')", "strip('Hd ')", "split(' ',1)", "encode2()"]:
        for s in subjects:
            yield f"{s}.{m}"
    yield from [
        "'a,b,c'.split(',',1)", "'a,b,c'.rsplit(',',1)", "'a,b,c'.split(',',-1)", "'a,b,c'.split(',',0)", "'a,b'.split('')", "'a,b'.split(sep=',')", "'a b c'.split(maxsplit=1)", "',a,'.split(',')", "''.split(',')", "''.split()", "'aaaa'.split('aa')", "'aaaa'.rsplit('aa',1)",
        "' a b '.split(' ')", "' a  b c '.split(none,1)", "' a  b c '.rsplit(none,1)", "'a\\x1cb\\u2028c\\x0bd'.splitlines()", "'a\\x1cb\\u2003c'.split()", "','.join(['a','b'])", "','.join('abc')", "','.join([1])", "','.join([])", "''.join(words)", "'-'.join(dict)",
        "text.find('zz')", "text.index('zz')", "text.index('o')", "text.find('o',5)", "text.find('o',5,7)", "text.rfind('o',0,5)", "text.find('o',-4)", "text.count('')", "text.count('l',3)", "'aaa'.count('aa')", "unicode.find('你')", "unicode.count('ß')", "text.find('')", "text.find('',50)", "''.find('')",
        "text.startswith(('X','H'))", "text.startswith('World',7)", "text.endswith('Hello',0,5)", "text.startswith('')", "text.startswith(1)", "text.startswith(['H'])", "text.endswith(('d','x'))", "text.startswith('',50)", "text.startswith(())",
        "'prefix-x'.removeprefix('prefix-')", "'x.txt'.removesuffix('.txt')", "'x'.removesuffix('')", "'-5'.zfill(4)", "'+5'.zfill(4)", "'é'.zfill(3)", "'ab'.center(5)", "'abc'.center(6,'*')", "'a'.center(4,'-')", "'a'.ljust(3,'ab')", "'xyx'.strip('x')", "'éaé'.strip('é')", "'mississippi'.lstrip('mis')",
        "'a'.replace('a','b',0)", "'aaa'.replace('a','b',-1)", "'abc'.replace('','-')", "'ab'.partition('x')", "'ab'.rpartition('x')", "'a=b=c'.partition('=')", "'a=b=c'.rpartition('=')", "'ab'.partition('')", "'ß'.upper()", "'ŉ'.title()", "'ΌΣΟΣ'.lower()", "'straße'.casefold()", "'x'.upper(1)",
        "'they\\'re bill\\'s'.title()", "'a1b c2d'.title()", "'Ab'.swapcase()", "'ab'.istitle()", "'a\\tb'.expandtabs()", "'a\\tb\\n\\tc'.expandtabs(3)", "'x'.nope()", "text.format()", "'x'.join", "'abc'.upper().lower().title().swapcase()",
    ]
    # Both ways to format.
    for spec in ["d", "5d", "-5d", "05d", "+d", " d", "x", "#x", "X", "o", "e", ".2f", "8.3f", "-8.1f|", "08.2f", "+.1e", "g", ".3g", "s", "5s", "-5s|", ".2s", "r", "c", "i", "u", "%", "5%", ".3d", "#o", "G", "F", "a", "q", "+05d", "ld"]:
        for value in ["42", "-42", "3.7", "'ab'", "true", "(65,)", "none"]:
            yield f"'%{spec}' % {value}"
    yield from [
        "'%s %s' % ('a','b')", "'%s %s' % ('a',)", "'%s' % ('a','b')", "'%s' % [1,2]", "'%(x)s-%(y)03d' % {'x':'a','y':5}", "'%(z)s' % {'x':1}", "'x' % {'x':1}", "'x' % []", "'x' % 1", "'%s' % missing", "'%d' % missing", "'%*d' % (5,3)", "'%-*d|' % (5,3)", "'%.*f' % (1,2.55)", "'%' % 1",
        "'%s%%' % 5", "'%c' % 'é'", "'%c' % 128512", "'%c' % 'ab'", "'%r' % 'it\\'s'", "'%a' % 'é'", "'%5.1f|%-7s|' % (3.14159, 'ab')", "'%x' % 255", "'%x' % 1.5", "'%e' % 12345.678", "'%g' % 1e10", "'%g' % 0.0001", "'%.0f' % 2.5", "'%f' % 'x'", "'%s' % (missing,)", "'%(a)s %(a)r' % {'a':'é'}", "'%5s' % 'é'", "'%.10f' % 0.1",
        "'{}'.format(1)", "'{} {}'.format('a','b')", "'{1} {0}'.format('a','b')", "'{0} {}'.format(1,2)", "'{x}'.format(x=1)", "'{x.a}'.format(x=dict)", "'{x[a]}'.format(x=dict)", "'{0[1]}'.format(list)", "'{0[9]}'.format(list)", "'{}'.format()", "'{x}'.format()", "'{{}}'.format()", "'{'.format()", "'}'.format()", "'{!r}'.format('a')", "'{!s:>5}'.format(none)", "'{!a}'.format('é')", "'{!z}'.format(1)",
        "'{:>{w}}'.format('a', w=5)", "'{:{}}'.format('a', 5)", "'{}'.format(missing)", "'{:5}'.format(missing)", "'{:d}'.format('x')", "'{:s}'.format(1)", "'{:5}'.format([1])", "'{}'.format([1,'a'])", "'{a}{b}'.format(**{'a':1,'b':2})", "'{}-{}'.format(*['x','y'])", "'{x}'.format_map({'x':1})", "'{0.real}'.format(5)", "'{0.__class__}'.format(5)", "'{:%}'.format(0.25)",
    ]
    for spec in ["", "5", "<5", ">5", "^5", "*^7", "05", "+", " ", "d", "5d", "+d", "x", "#x", "#b", "o", "X", "c", ",", "_", "010,", "e", ".2e", "f", ".1f", "8.2f", "<8.2f", "+.1f", "g", ".3g", "G", "%", ".1%", "s", ".2", ".3", "=5", "0=6", "n", "é>4", ">+8.2f", ",.2f", "_x", "q", "5.2d"]:
        for value in ["42", "-1234567", "3.14159", "1234.5", "1e20", "'abc'", "true"]:
            yield f"'{{:{spec}}}|'.format({value})"


def templates():
    yield from [
        # Whitespace.
        "a\n{% if true %}\nb\n{% endif %}\nc", "a\n  {% if true %}  \n  b\n  {% endif %}  \nc\n", "a {%- if true -%} b {%- endif -%} c", "  {%+ if true %}x{% endif %}", "x{% if true +%}\ny{% endif %}", "a\n\n{%- if true %}\n\nb{% endif %}",
        "  {{ 1 }}  \n{{ 2 }}\n", "  {{- 1 -}}  \n  {{- 2 }}\n\n", "a\n{# c #}\nb", "a {#- c -#} b", "  {# c #}\nx", "x {# c +#}\ny", "a{#\n multi\n#}b", "{#-#}x", "x\n  {#- c #}\ny", "\n", "\n\n", "a\n\n", "a\r\nb\rc\r\n", "{{ 'a\r\nb' }}", "{% raw %}{{ x }}{% endraw %}", "a\n  {% raw %}\n x\n  {% endraw %}\nb",
        "{%- raw -%}  a {{ {% {# {%- endraw -%} b", "{% raw %}x", "{# x", "{{ x", "{% if x", "{%", "{{", "{#", "}}", "%}", "{", "a{b}c", "{ { x } }", "{{ '}}' }}", "{{ '{%' }}", "{% set x = '%}' %}{{ x }}", "{{ {'a': {'b': 1}}.a.b }}", "{{{'a':1}.a}}", "{{ {} }}", "{% if true %}  {% endif %}", "\t{% if true %}\tx\t{% endif %}\t", "x  {% set a = 1 %}  y", "x\n  {% set a = 1 %}\n  y",
        "x\n  {%- set a = 1 %}\n  y", "x\n  {% set a = 1 -%}\n  y", "{{ 1 }}{% if true %}\n{% endif %}\n{{ 2 }}", "{% for i in [1,2] %}\n  {{ i }}\n{% endfor %}\n", "{% for i in [1,2] -%}\n  {{ i }}\n{%- endfor %}\n", "{% for i in [1,2] %}{{ i }}{% endfor %}\n\n", "  {% if true %}a{% endif %}  {% if true %}b{% endif %}", "{% if true %}a{% endif %}\n  {% if true %}b{% endif %}", "{{ 'x' }}\n{% if true %}y{% endif %}",
        "{%if true%}a{%endif%}", "{%-if true-%} a {%-endif-%}", "{{-1}}", "{{+1}}", "{{ -1 }}", "{{- -1 -}}", "\u00a0{% if true %}x{% endif %}", "a\u2003{%- if true %}x{% endif %}", "{% if true: %}x{% endif %}", "{%\nif\ntrue\n%}x{%\nendif\n%}", "{{ 1 }}\n\n\n{{ 2 }}", "é{{ 'ü' }}你\n",
        # Branches.
        "{% if 0 %}a{% elif 1 %}b{% else %}c{% endif %}", "{% if 0 %}a{% elif '' %}b{% else %}c{% endif %}", "{% if missing %}a{% endif %}b", "{% if missing.x %}a{% endif %}b", "{% if 1 %}{% if 0 %}a{% else %}b{% endif %}{% endif %}", "{% if 1 %}a", "{% endif %}", "{% else %}", "{% if %}a{% endif %}", "{% if 1, 2 %}a{% endif %}", "{% if 1 %}a{% else %}b{% else %}c{% endif %}", "{% if 1 %}a{% endfor %}",
        "{% if false %}{{ x|nope }}{% endif %}ok", "{% if true %}{{ x|nope }}{% endif %}ok", "{% if false %}{% for i in [1] %}{{ i|nope }}{% endfor %}{% endif %}ok", "{% if false %}{{ 1 is nope }}{% endif %}ok", "{% if false %}{% macro m() %}{{ 1|nope }}{% endmacro %}{% endif %}ok", "{% macro m() %}{{ 1|nope }}{% endmacro %}ok", "{{ x|nope }}",
        # Loops.
        "{% for i in list %}{{ i }},{% endfor %}", "{% for i in [] %}x{% else %}none{% endfor %}", "{% for i in missing %}x{% else %}none{% endfor %}", "{% for i in none %}x{% endfor %}", "{% for i in 5 %}x{% endfor %}", "{% for c in 'héy' %}{{ c }}-{% endfor %}", "{% for k in dict %}{{ k }}{% endfor %}", "{% for k, v in dict.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k, v in dict|items %}{{ k }}={{ v }};{% endfor %}",
        "{% for a, b in [[1,2],[3,4]] %}{{ a }}{{ b }}{% endfor %}", "{% for a, b in [[1,2,3]] %}{{ a }}{% endfor %}", "{% for a, b in [[1]] %}{{ a }}{% endfor %}", "{% for a, (b, c) in [[1,[2,3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for (a, b) in [[1,2]] %}{{ a }}{{ b }}{% endfor %}", "{% for i in 1, 2, 3 %}{{ i }}{% endfor %}", "{% for i in list if i > 1 %}{{ i }}{{ loop.index }}{{ loop.length }}{% endfor %}",
        "{% for i in list if i > 5 %}x{% else %}none{% endfor %}", "{% for i in list %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }};{% endfor %}", "{% for i in list %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }} {% endfor %}", "{% for i in list %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{% endfor %}",
        "{% for i in list %}{{ loop.cycle('a','b') }}{% endfor %}", "{% for i in [1,1,2] %}{{ loop.changed(i) }}{% endfor %}", "{% for i in [1,1,2] %}{% if loop.changed(i, 'x') %}{{ i }}{% endif %}{% endfor %}", "{% for i in list %}{% for j in 'ab' %}{{ loop.index }}{{ loop.depth }}{% endfor %}{{ loop.index }};{% endfor %}", "{% for i in list %}{% set outer = loop %}{% for j in [1,2] %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}",
        "{% for i in range(10) %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}", "{% for i in range(5) %}{% if i is odd %}{% continue %}{% endif %}{{ i }}{% endfor %}", "{% for i in range(3) %}{% for j in range(3) %}{% if j == 1 %}{% break %}{% endif %}{{ i }}{{ j }} {% endfor %}{% endfor %}", "{% break %}", "{% continue %}", "{% for i in [1] %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}", "{% for i in [1] %}x{% else %}{% break %}{% endfor %}",
        "{% for i in [1,2] %}{% if i == 1 %}{% break %}{% endif %}{% else %}none{% endfor %}", "{% for n in tree recursive %}{{ n.n }}{% if n.c %}[{{ loop(n.c) }}]{% endif %}{% endfor %}", "{% for n in tree recursive %}{{ loop.depth }}{{ n.n }} {{ loop(n.c) }}{% endfor %}", "{% for n in tree %}{{ loop(n.c) }}{% endfor %}", "{% for i in list %}{% endfor %}{{ i }}", "{% set i = 9 %}{% for i in list %}{{ i }}{% endfor %}{{ i }}", "{% set x = 0 %}{% for i in list %}{% set x = x + i %}{{ x }},{% endfor %}{{ x }}",
        "{% for i in list %}{% if loop.first %}{% set y = 'first' %}{% endif %}{{ y }}|{% endfor %}", "{% set x = 1 %}{% for i in list %}{{ x }}{% set x = 5 %}{{ x }} {% endfor %}", "{{ loop }}", "{% for i in list %}{{ loop.foo }}{% endfor %}", "{% for i in list %}{{ loop }}{% endfor %}", "{% for i in dict.values() %}{{ i }}{% endfor %}", "{% for i in list|sort|reverse %}{{ i }}{{ loop.last }}{% endfor %}", "{% for i in list|map('string') %}{{ i }}{{ loop.length }}{% endfor %}",
        "{% set g = list|map('string') %}{% for i in g %}{{ i }}{% endfor %}-{% for i in g %}{{ i }}{% endfor %}", "{% for x in list recursive if x %}{% endfor %}", "{% for i in list if loop.index %}{{ i }}{% endfor %}", "{% for true in list %}{% endfor %}", "{% for i in %}{% endfor %}", "{% for in list %}{% endfor %}", "{% for i list %}{% endfor %}", "{% for i in list %}", "{% for i in [1,2,3] %}{{ i if not loop.last else 'end' }}{% endfor %}", "{% for p in people %}{{ p.name ~ (', ' if not loop.last) }}{% endfor %}",
        "{% for i in [3,4] %}{{ loop.index }}{% set loop = 5 %}{% endfor %}", "{% for a in [1,2] %}{% for b in [a, a*10] %}{{ b }} {% endfor %}{% endfor %}", "{% for k, v in dict|dictsort %}{{ k }}{{ v }}{% endfor %}", "{% for g, l in people|groupby('age') %}{{ g }}:{% for p in l %}{{ p.name }} {% endfor %}{% endfor %}", "{% for g in people|groupby('age') %}{{ g.grouper }}:{{ g.list|length }} {% endfor %}", "{% for r in [1,2,3,4,5]|batch(2) %}{{ r|join }};{% endfor %}",
        # Set, namespaces, scopes.
        "{% set x = 5 %}{{ x }}", "{% set x, y = 1, 2 %}{{ x }}{{ y }}", "{% set (x, y) = [1, 2] %}{{ x }}{{ y }}", "{% set x, y = [1] %}", "{% set x = 1, 2 %}{{ x }}", "{% set x %}a{{ 1 }}b{% endset %}{{ x }}{{ x is string }}", "{% set x | upper %}abc{% endset %}{{ x }}", "{% set x | replace('a','b') | upper %}abc{% endset %}{{ x }}", "{% set ns = namespace(n=0) %}{% for i in list %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}", "{% set ns = namespace() %}{{ ns.x is defined }}{% set ns.x = 1 %}{{ ns.x }}",
        "{% set ns = namespace(a=1) %}{% set ns.b %}block{% endset %}{{ ns.a }}{{ ns.b }}", "{% set dict.x = 1 %}", "{% set missing.x = 1 %}", "{% set x = namespace %}{{ x(a=2).a }}", "{% set x.y.z = 1 %}", "{% set 1 = 2 %}", "{% set x %}", "{% set x = %}", "{% set none = 1 %}", "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}", "{% if false %}{% set x = 2 %}{% endif %}{{ x is defined }}{{ text }}", "{% set text = 'mine' %}{{ text }}", "{% with %}{% set x = 1 %}{{ x }}{% endwith %}{{ x is defined }}", "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a }}", "{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}",
        "{% set ns.x = 1 %}", "{% set ns = namespace(x=[]) %}{% set ns.x = ns.x + [1] %}{% set ns.x = ns.x + [2] %}{{ ns.x }}", "{% set a = b = 1 %}", "{% set ns = namespace(a=1) %}{{ ns.a }}{{ ns['a'] }}", "{% set x = [1] %}{% set y = x + [2] %}{{ x }}{{ y }}", "{% block b %}in {{ text }}{% endblock %}", "{% block b %}x{% endblock b %}", "{% autoescape false %}{{ html }}{% endautoescape %}", "{% filter upper %}abc{{ text }}{% endfilter %}", "{% filter upper|replace('A','-') %}abc{% endfilter %}", "{% filter nope %}x{% endfilter %}", "{% print 1 %}{% print 'a', 2 %}", "{% do 1 %}", "{% nope %}", "{% include 'x' %}", "{% import 'x' as y %}", "{% extends 'x' %}",
        "{% generation %}x{{ text }}{% endgeneration %}", "a {%- generation -%} b {%- endgeneration -%} c", "{% generation %}{% set q = 1 %}{% endgeneration %}{{ q is defined }}", "{% for i in list %}{% generation %}{{ loop.index }}{{ i }}{% endgeneration %}{% endfor %}",
        # Macros.
        "{% macro m() %}x{% endmacro %}{{ m() }}{{ m() }}", "{% macro m(a, b=2) %}{{ a }}-{{ b }};{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=4, a=5) }}{{ m() }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(c=2) }}", "{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}", "{% macro m(a) %}{{ a.x }}{% endmacro %}{{ m() }}", "{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(7) }}", "{% macro m(a=1, b) %}{% endmacro %}", "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}", "{% macro m() %}{{ text }}{% endmacro %}{{ m() }}",
        "{% set v = 1 %}{% macro m() %}{{ v }}{% endmacro %}{% set v = 2 %}{{ m() }}", "{% macro m() %}{% set v = 5 %}{{ v }}{% endmacro %}{{ m() }}{{ v is defined }}", "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}", "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}", "{{ m() }}{% macro m() %}x{% endmacro %}", "{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}in{% endcall %}", "{% macro m() %}[{{ caller(1, 2) }}]{% endmacro %}{% call(a, b) m() %}{{ a }}{{ b }}{% endcall %}", "{% macro m() %}x{% endmacro %}{% call m() %}in{% endcall %}", "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}",
        "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}{% call m() %}{% endcall %}", "{% call text %}x{% endcall %}", "{% macro m(x) %}{{ x }}{% endmacro %}{{ m('a')|upper }}{{ m('a') ~ 1 }}{{ m('a') == 'a' }}", "{{ m }}", "{% macro m() %}x{% endmacro %}{{ m.name }}{{ m is callable }}", "{% for i in list %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}", "{% macro m() %}{% for i in [1,2] %}{{ i }}{% endfor %}{% endmacro %}{{ m() }}", "{% macro m(x) %}{% if x %}{{ x[0] }}{{ m(x[1:]) }}{% endif %}{% endmacro %}{{ m('héy') }}", "{% macro m(a) -%}  {{ a }}  {%- endmacro %}[{{ m(1) }}]", "{% macro m(text='d') %}{{ text }}{% endmacro %}{{ m() }}{{ text }}", "{% macro m(**kw) %}{% endmacro %}", "{% macro %}{% endmacro %}", "{% macro m() %}", "{% macro m(a, a2=[1,2]) %}{{ a2[0] }}{{ a }}{% endmacro %}{{ m(*[1]) }}{{ m(**{'a': 3}) }}",
        "{% set m = 5 %}{{ m }}{% macro m() %}x{% endmacro %}{{ m() }}", "{% macro outer() %}{% macro inner() %}i{% endmacro %}{{ inner() }}{% endmacro %}{{ outer() }}{{ inner is defined }}", "{% macro m(x) %}{{ x|default('none') }}{% endmacro %}{{ m() }}{{ m(1) }}", "{% macro m() %}{{ kwargs.a }}{{ kwargs|length }}{% endmacro %}{{ m(a=1, b=2) }}", "{% macro wrap(tag) %}<{{ tag }}>{{ caller() }}</{{ tag }}>{% endmacro %}{% call wrap('b') %}{% call wrap('i') %}x{% endcall %}{% endcall %}", "{% set c = cycler('a','b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.next() }}", "{% set j = joiner(' | ') %}{% for i in list %}{{ j() }}{{ i }}{% endfor %}", "{% set f = text.upper %}{{ f() }}", "{% set r = range %}{{ r(2)|list }}",
        # As templates of models do it.
        "{% for m in people %}{% if m['age'] > 20 and m.city is defined and m.city is not none %}{{ '<|im_start|>' + m.name + '\n' }}{% endif %}{% endfor %}", "{{ people[-1].name }}{{ people[1:]|length }}{{ people|selectattr('age','eq',31)|list|length }}", "{% if not 'tools' in dict %}no{% endif %}{% if 'a' in dict and dict['a'] %}yes{% endif %}", "{{ bos_token + 'x' if bos_token else '' }}", "{% set content = text.split(',')[-1].lstrip('\n') %}{{ content }}", "{%- for i in range(people|length - 1, -1, -1) %}{{ people[i].name }}{%- endfor %}", "{{ '' if missing is not defined else missing.x }}", "{% set ns = namespace(found=false, last=-1) %}{% for p in people[::-1] %}{% if not ns.found and p.age == 31 %}{% set ns.found = true %}{% set ns.last = (people|length - 1) - loop.index0 %}{% endif %}{% endfor %}{{ ns.last }}",
        "{{ raise_exception('no ' ~ text) }}", "{% if true %}{{ raise_exception('x') }}{% endif %}", "{{ strftime_now('%d %B %Y') }}", "{% set a = {'x': 1} %}{% for k in a %}{{ k }}: {{ a[k] | tojson }}{% endfor %}", "{{ dict.items() | map('join', '=') | join('&') }}", "{% for k, v in dict.items() if v > 1 %}{{ k }}{% endfor %}", "{{ (text ~ '\n').strip().split(' ') | first }}", "{{ people | map(attribute='name') | map('lower') | sort | join('/') }}", "{% set x = none %}{{ x or 'd' }}{{ (x or {}).get('a', 'z') }}", "{{ text is string and text|length }}", "{{- '\\n' -}}", "{{ \"a'b\" }}{{ 'a\"b' }}",
    ]


def main():
    env = environment()
    cases = []
    seen = set()
    for source in itertools.chain((f"{{{{ {e} }}}}" for e in expressions()), templates()):
        if source in seen:
            continue
        seen.add(source)
        case = {"template": source}
        try:
            text = env.from_string(source).render(**copy.deepcopy(CONTEXT))
            if re.search(r"\d[+-][\de.+-]+j\)", text):  # there are no complex numbers here
                continue
            # Addresses differ from run to run, and the names of Python's internals are not of interest.
            if re.search(r" at 0x|<(bound|built-in|function|class|Macro|jinja2)", text):
                continue
            case["expect"] = text.encode("utf-8", "replace").decode()
        except RecursionError:
            continue
        except Exception as error:
            case["error"] = f"{type(error).__name__}: {error}"[:160]
        cases.append(case)
    out = {"jinja2": jinja2.__version__, "context": CONTEXT, "cases": cases}
    head = json.dumps({k: v for k, v in out.items() if k != "cases"}, ensure_ascii=False)[:-1]
    print(head + ', "cases": [')
    print(",\n".join(json.dumps(c, ensure_ascii=False) for c in cases))
    print("]}")
    print(len(cases), "cases", file=sys.stderr)


if __name__ == "__main__":
    main()
