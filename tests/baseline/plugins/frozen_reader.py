"""A log reader: a JSON object of columns."""

import json

import numpy as np


class JsonTable:
    def __init__(self, path):
        self.path = path
        data = json.loads(path.read_text())
        self.data = {name: np.array(values, dtype=np.float64) for name, values in data.items()}
        self.column_names = tuple(self.data)
        self.row_count = len(self.data["t"])

    def batches(self, columns, rows, start=0, stop=None):
        end = self.row_count if stop is None else min(stop, self.row_count)
        for first in range(start, end, rows):
            yield {name: self.data[name][first : min(first + rows, end)] for name in columns}


class JsonReader:
    name = "frozen"
    suffixes = (".frozen",)

    def can_read(self, head):
        return head[:1] == b"{"

    def open(self, path, delimiter=None, decimal=None):
        return JsonTable(path)
