"""Speed and memory of encoders and of searches, side by side on this machine."""

from aveyb_ir.bench.report import save, table
from aveyb_ir.bench.run import BenchReport, bench
from aveyb_ir.bench.search import SearchReport, SearchTiming, bench_search

__all__ = ["BenchReport", "SearchReport", "SearchTiming", "bench", "bench_search", "save", "table"]
