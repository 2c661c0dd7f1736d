"""Rows of CSVs and keys of problems, for the scripts that print tables."""
import csv
import re


def read_rows(path):
    """Raises ValueError where the file is no CSV."""
    with open(path, newline="") as file:
        try:
            return list(csv.DictReader(file))
        except csv.Error as error:
            raise ValueError(str(error)) from None


def parse_problem(key):
    """op[a=1,b=2] as op and dims."""
    match = re.fullmatch(r"(\w+)\[(.*)\]", key)
    if not match:
        raise ValueError(f"'{key}' is not the key of a problem")
    return match[1], dict(pair.split("=", 1) for pair in match[2].split(",") if pair)


def fastest(rows, key):
    """The fastest row by key, in the order in which keys come up."""
    best = {}
    for row in rows:
        known = best.setdefault(key(row), row)
        if float(row["time_us"]) < float(known["time_us"]):
            best[key(row)] = row
    return best


def print_table(titles, lines):
    """As Markdown."""
    print("| " + " | ".join(titles) + " |\n|" + "---|" * len(titles))
    for cells in lines:
        print("| " + " | ".join(cells) + " |")
