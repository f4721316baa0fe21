"""How a comparison writes its numbers and what it found, the same in every form."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from aveyb_ir.evaluation.comparison_differences import Difference
from aveyb_ir.evaluation.comparison_queries import Found, QueryDifference
from aveyb_ir.evaluation.comparison_scores import Score

MARKS = {"▲": "gain", "▼": "loss"}
"""The marks of significant differences, and what they stand for."""


def value(score: Score | None) -> str:
    """A score with its deviation over seeds; "-" where a system was not measured."""
    if score is None:
        return "-"
    return f"{score.mean:.4f}" + (f" ± {score.sd:.4f}" if score.sd is not None else "")


def mark(difference: Difference | None) -> str:
    """▲ or ▼ for a significant difference, else nothing."""
    if difference is None or not difference.significant:
        return ""
    return "▲" if difference.mean > 0 else "▼"


def signed(difference: float) -> str:
    """A difference, with a true minus sign."""
    return f"{difference:+.4f}".replace("-", "\N{MINUS SIGN}")


def p_value(p: float) -> str:
    """A p-value to three places, and never a bare 0."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def number(found: float | None) -> str:
    """An extra column's number to four digits; "-" where there is none."""
    if found is None:
        return "-"
    return f"{found:,.0f}" if abs(found) >= 1000 or found == round(found) else f"{found:.4g}"


def set_name(data: str | None) -> str:
    """A set's name, or what stands for the mean over sets and for a set without a name."""
    return "mean" if data is None else data or "(unnamed)"


def shown_documents(query: QueryDifference, systems: Sequence[str]) -> Iterator[tuple[str, Found | None]]:
    """List what systems found first and what is relevant, with what it is, each text once."""
    seen: set[str] = set()
    relevant = "relevant" if query.num_relevant == len(query.relevant) else f"relevant (one of {query.num_relevant})"
    tops = [(f"{system} finds first", query.top[system]) for system in systems if system in query.top]
    for name, found in [*tops, *((relevant, found) for found in query.relevant)]:
        yield name, replace(found, text=None) if found is not None and found.id in seen else found
        seen |= {found.id} if found is not None else set()


def about_document(found: Found, systems: Sequence[str]) -> str:
    """Say what the judgements think of a document and in which place systems have it."""
    grade = "not judged" if found.grade is None else f"grade {found.grade}"
    ranks = [(system, found.ranks[system]) for system in systems if system in found.ranks]
    places = [f"{system}: {'not found' if rank is None else f'place {rank:,}'}" for system, rank in ranks]
    return ", ".join([grade, *places])
