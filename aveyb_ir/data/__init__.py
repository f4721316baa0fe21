"""Corpora, queries, judgements, runs and training rows: read from files, checked, and written back."""

from aveyb_ir.data.beir import BeirFolder, write_beir_folder
from aveyb_ir.data.beir_pairs import (
    JudgedQuery,
    iter_judged_queries,
    iter_training_rows_from_beir,
    judged_queries,
    training_rows_from_beir,
)
from aveyb_ir.data.collection import Collection
from aveyb_ir.data.corpus import count_documents, read_documents, read_queries
from aveyb_ir.data.disk_rows import DiskRows, DiskTexts
from aveyb_ir.data.documents import Document, Query
from aveyb_ir.data.hub_collection import HubCollection
from aveyb_ir.data.jsonl import read_jsonl, write_jsonl
from aveyb_ir.data.lines import write_lines
from aveyb_ir.data.open_collection import open_collection, open_collections
from aveyb_ir.data.own_documents import OwnDocument, OwnDocuments, check_own_document
from aveyb_ir.data.pair_fields import TrainingRow
from aveyb_ir.data.pairs import iter_training_rows, read_training_rows, report_dropped
from aveyb_ir.data.qrels import Qrels, checked_qrels, read_qrels, write_qrels
from aveyb_ir.data.replacing import check_replaceable, replacing
from aveyb_ir.data.runs import Run, checked_run, read_run, trec_order, write_run
from aveyb_ir.data.text_table import TextTable
from aveyb_ir.data.wording import listed

__all__ = [
    "BeirFolder",
    "Collection",
    "DiskRows",
    "DiskTexts",
    "Document",
    "HubCollection",
    "JudgedQuery",
    "OwnDocument",
    "OwnDocuments",
    "Qrels",
    "Query",
    "Run",
    "TextTable",
    "TrainingRow",
    "check_own_document",
    "check_replaceable",
    "checked_qrels",
    "checked_run",
    "count_documents",
    "iter_judged_queries",
    "iter_training_rows",
    "iter_training_rows_from_beir",
    "judged_queries",
    "listed",
    "open_collection",
    "open_collections",
    "read_documents",
    "read_jsonl",
    "read_qrels",
    "read_queries",
    "read_run",
    "read_training_rows",
    "replacing",
    "report_dropped",
    "training_rows_from_beir",
    "trec_order",
    "write_beir_folder",
    "write_jsonl",
    "write_lines",
    "write_qrels",
    "write_run",
]
