"""Speed and memory of encoders, side by side on this machine."""

from aveyb_ir.bench.report import save, table
from aveyb_ir.bench.run import BenchReport, bench

__all__ = ["BenchReport", "bench", "save", "table"]
