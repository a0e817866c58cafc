"""Tables with one or two mutations each, and what is true of them: their features, or that they must be refused."""

from datetime import datetime, timedelta

import numpy as np
from cases import MUTATIONS, OUT, base, mutation, some


@mutation("separator", "comma")
def semicolons(case, random):
    case.separator = ";"


@mutation("separator")
def tabs(case, random):
    case.separator = "\t"


@mutation("separator")
def bars(case, random):
    case.separator = "|"


@mutation("separator", "comma")
def decimal_commas(case, random):
    case.separator = ";"
    for name in [*case.of("number"), case.target]:
        if case.kinds[name] == "number":
            case.cells[name] = [cell.replace(".", ",") for cell in case.cells[name]]


@mutation()
def quotes(case, random):
    case.quoted = True


@mutation("encoding")
def byte_order_mark(case, random):
    case.encoding = "utf-8-sig"


@mutation("encoding")
def utf16(case, random):
    case.encoding = "utf-16"


@mutation("encoding", "letters")
def latin1(case, random):
    case.add("café", "text", ["a", "é"] * (case.rows // 2) + ["a"] * (case.rows % 2))
    case.encoding = "latin-1"
    case.refused.append("save it as UTF-8|cannot be read as CSV")


@mutation("lines")
def windows_lines(case, random):
    case.line = "\r\n"


@mutation()
def blank_lines(case, random):
    case.blank_lines = True


@mutation()
def blanks_around(case, random):
    case.edits.append(lambda lines: [[f" {c} " for c in cells] for cells in lines])


@mutation("header", "tiny")
def no_header(case, random):
    case.edits.append(lambda lines: lines[1:])
    case.refused.append("begins with numbers|more than one column named|has no name")


@mutation("header")
def twice_a_name(case, random):
    case.edits.append(lambda lines: [[lines[0][0], lines[0][0], *lines[0][2:]], *lines[1:]])
    case.refused.append("more than one column named|has no name")


@mutation("width")
def a_value_too_many(case, random):
    row = int(random.integers(1, case.rows))
    case.edits.append(lambda lines: [[*c, "7"] if i == row else c for i, c in enumerate(lines)])
    case.refused.append("values, and the first line")


@mutation("width")
def a_value_too_few(case, random):
    row = int(random.integers(1, case.rows))
    case.edits.append(lambda lines: [c[:-1] if i == row else c for i, c in enumerate(lines)])
    case.refused.append("values, and the first line")


@mutation("index")
def an_index(case, random):
    case.add("", OUT, map(str, range(case.rows)), at=0)


@mutation()
def an_id(case, random):
    name = str(random.choice(["id", "customer_id", "ID", "rowId", "order id"]))
    start = int(random.integers(0, 10_000))
    case.add(name, OUT, [str(start + i) for i in random.permutation(case.rows)])


@mutation()
def a_token(case, random):
    case.add("token", OUT, [f"t{i:05x}-{random.integers(1000)}q" for i in range(case.rows)])


@mutation("cell")
def gaps(case, random):
    marks = ["", "NA", "?", "-", "null", "NaN", "n/a", "None"]
    for name in list(case.cells)[:-1]:
        if case.kinds[name] != OUT:
            for row in some(random, case)[:8]:
                case.change(name, row, str(random.choice(marks)))


@mutation("size", "cell")
def infinity(case, random):
    case.change("size", int(random.integers(case.rows)), str(random.choice(["inf", "-inf", "Infinity", "1e400"])), 0.0)
    case.refused.append("size(, | [(])row .* infinite")


@mutation("size", "cell")
def beyond_single_precision(case, random):
    case.change("size", int(random.integers(case.rows)), "1e300", 0.0)
    case.refused.append("size(, | [(])row .* is beyond the numbers")


@mutation("size", "cell")
def a_typing_error(case, random):
    case.change("size", int(random.integers(case.rows)), str(random.choice(["x12", "1.2.3", "12O", "twelve"])), 0.0)
    case.refused.append("size(, | [(])row .* is no number")


@mutation("size", "comma")
def thousands(case, random):
    values = [round(1000 * abs(v) + 1000.25, 2) for v in case.values["size"]]
    case.cells["size"], case.values["size"] = [f"{v:,.2f}" for v in values], values


@mutation("size")
def units(case, random):
    case.cells["size"] = [f"{v} kg" for v in case.cells["size"]]
    case.refused.append("size(, | [(])row .* something beside it")


@mutation("size", "comma")
def complex_numbers(case, random):
    case.cells["size"] = [f"{v}+1.5j" for v in case.cells["size"]]
    case.refused.append("size(, | [(])row .* complex")


@mutation("size", "comma")
def exponents(case, random):
    case.cells["size"] = [f"{v:+.5e}" for v in case.values["size"]]


@mutation()
def huge_numbers(case, random):
    case.add("hash", OUT, [str(2**63 + 3 * i) for i in range(case.rows)])


@mutation()
def huge_codes(case, random):
    case.add("hash", OUT, [str(2**63 + i % 5) for i in range(case.rows)])
    case.refused.append("hash(, | [(])row .* more digits")


@mutation()
def foreign_dates(case, random):
    form = str(random.choice(["%d.%m.%Y", "%m/%d/%Y", "%d-%m-%y", "%d %b %Y"]))
    case.add("seen", "date", [f"{datetime(2020, 1, 1) + timedelta(days=7 * i):{form}}" for i in range(case.rows)])
    case.refused.append("seen(, | [(])row 1: .* not in ISO form")


@mutation("cell")
def a_bad_date(case, random):
    moments = [datetime(2020, 1, 1) + timedelta(days=7 * i) for i in range(case.rows)]
    case.add("seen", "date", [f"{d:%Y-%m-%d}" for d in moments])
    case.change("seen", 3, str(random.choice(["2020-13-45", "soon", "2020-02-30"])))
    case.refused.append("seen(, | [(])row 4: .* is no date")


@mutation()
def moments(case, random):
    zone, found = str(random.choice(["", "Z", "+00:00"])), []
    for _ in range(case.rows):
        found.append(datetime(2020, 1, 1) + timedelta(minutes=int(random.integers(1_000_000))))
    case.add("at", "date", [f"{d:%Y-%m-%dT%H:%M:%S}{zone}" for d in found], found)


@mutation()
def other_flags(case, random):
    spellings = ("TRUE", "FALSE", "boolean"), ("True", "False", "boolean"), ("yes", "no", "text"), ("1", "0", "number")
    yes, no, kind = spellings[random.integers(4)]
    flags = [bool(i % 3) for i in range(case.rows)]
    values = [(yes if f else no) if kind == "text" else float(f) for f in flags]
    case.add("flag", kind, [yes if f else no for f in flags], values)


@mutation()
def codes(case, random):
    case.add("code", "text", ["12A"[i % 3] for i in range(case.rows)])


@mutation()
def leading_zeros(case, random):
    case.add("zip", "text", [f"0{i % 7}10" for i in range(case.rows)])


@mutation()
def a_constant(case, random):
    case.add("same", "number", ["3"] * case.rows, [3.0] * case.rows)


@mutation()
def nothing_in_it(case, random):
    case.add("empty", OUT, [""] * case.rows)


@mutation()
def many_levels(case, random):
    case.add("shop", "text", [f"shop {i % (case.rows // 2 - 1)}s" for i in range(case.rows)])


@mutation("letters")
def other_letters(case, random):
    case.add("größe 大", "text", [["klein", "groß", "大きい"][i % 3] for i in range(case.rows)])


@mutation("lines")
def text_with_marks(case, random):
    levels = ['say "so"', "a, b; c", "two\nlines"]
    case.add("note", "text", [levels[i % 3] for i in range(case.rows)])


@mutation("header")
def commas_in_names(case, random):
    case.add("width, mm", "number", [str(i % 11) for i in range(case.rows)], [float(i % 11) for i in range(case.rows)])


@mutation("target")
def target_with_gaps(case, random):
    case.change("y", int(random.integers(case.rows)), "")
    case.refused.append("y(, | [(])row .* the target is missing")


@mutation("target")
def target_infinite(case, random):
    case.change("y", int(random.integers(case.rows)), "inf", 0.0)
    case.refused.append("y(, | [(])row .* infinite")


@mutation("target")
def one_class(case, random):
    case.cells["y"], case.kinds["y"] = ["no"] * case.rows, "text"
    case.refused.append("column y: every label is")


@mutation("target")
def labels(case, random):
    case.cells["y"] = case.values["y"] = [["no", "yes", "perhaps"][i % 3] for i in range(case.rows)]
    case.kinds["y"] = "text"


@mutation("target")
def date_target(case, random):
    case.cells["y"], case.kinds["y"] = [f"2020-01-{i % 28 + 1:02d}" for i in range(case.rows)], "date"
    case.refused.append("y(, | [(])row 1: dates cannot be predicted")


@mutation("tiny")
def two_rows(case, random):
    case.edits.append(lambda lines: lines[:3])
    case.refused.append("rows of data")


@mutation("tiny")
def no_rows(case, random):
    case.edits.append(lambda lines: lines[:1])
    case.refused.append("rows of data")


def cases(number: int, seed: int = 0):
    """So many tables, each with one or two mutations: name and case."""
    names = sorted(MUTATIONS)
    for i in range(number):
        random = np.random.default_rng((seed, i))
        case, first = base(random), names[i % len(names)]
        second = names[random.integers(len(names))] if i >= len(names) else first
        both = [first] if MUTATIONS[first][1] & MUTATIONS[second][1] else [first, second]
        # cells are written, then emptied, and then the file is changed
        for name in sorted(both, key=lambda name: (name == "gaps") + 2 * ("separator" in MUTATIONS[name][1])):
            MUTATIONS[name][0](case, random)
        yield f"{i} {' + '.join(both)}", case
