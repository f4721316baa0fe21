"""The command `aveyb-ir`: each command parses its options, calls one public function and prints."""

from aveyb_ir.cli.main import main

__all__ = ["main"]
