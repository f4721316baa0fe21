"""What is hidden in haystacks: facts whose overlap with every question is known, or passages with their questions."""

import os
import random
from dataclasses import dataclass

from aveyb_ir.data import Collection, open_collection

_FIRST_NAMES = (
    "Alba Anselm Bettina Bruno Camilla Cedric Dagmar Dorian Edwina Emrys Fabiola Fergus Greta Gideon Harriet Horatio "
    "Imogen Isidor Jolanda Jasper Kirsten Klemens Leonie Lysander Mirela Magnus Noemi Norbert Odette Orlando Petra "
    "Quentin Ramona Rufus Sabina Severin Tabitha Tiberius Ulrike Urban Verena Valentin Wanda Wendel Xenia Ysolde Zelda "
    "Zoltan"
)
_LAST_NAMES = (
    "Abernethy Ashgrove Birkholm Bramwell Castellan Chadwick Dunmore Delacroix Eastlake Elphick Fairbrother "
    "Fothergill Gainsford Greenhalgh Hollister Hathersage Ibbotson Inverarity Jessop Kettlewell Kirkbride Lockridge "
    "Longbottom Merriweather Molyneux Northcott Nettlefold Oakhurst Ormsby Pemberton Prendergast Quillfeather "
    "Ravenscroft Rowntree Silverthorne Standish Thistlewood Tregarthen Underhill Vavasour Wetherby Winterbourne "
    "Yardley Yelverton Zeller Zimmerli Marchbanks Pickersgill"
)
_FIRST_KEY = 10_000
_LAST_KEY = 99_999


@dataclass(frozen=True)
class Needle:
    """A question and the text that answers it."""

    question: str
    text: str


def fact_needles(num: int, *, seed: int = 0) -> list[Needle]:
    """Make facts of one wording, each of another person: "The pass key of Greta Jessop is 48213."

    A question shares its whole wording with its own fact, and with every other fact all but the name, so that nothing
    but the name tells them apart; the keys are in no question. First and last names come twice only when all have come
    once, and no person comes twice. See the passkey task of LongEmbed (Zhu et al. 2024), whose needles are alike.

    Raises:
        ValueError: More than there are names for.
    """
    firsts, lasts = _FIRST_NAMES.split(), _LAST_NAMES.split()
    rounds = [
        [(first, lasts[(number + shift) % len(lasts)]) for number, first in enumerate(firsts)]
        for shift in range(len(lasts))
    ]
    if not 1 <= num <= len(firsts) * len(lasts):
        raise ValueError(
            f"{num} needles and distractors; expected 1 to {len(firsts) * len(lasts):,}, as many as there are names: "
            "ask for fewer"
        )
    generator = random.Random(seed)
    generator.shuffle(rounds)
    for turn in rounds:
        generator.shuffle(turn)
    chosen = [person for turn in rounds for person in turn][:num]
    keys = generator.sample(range(_FIRST_KEY, _LAST_KEY + 1), num)
    return [
        Needle(f"What is the pass key of {first} {last}?", f"The pass key of {first} {last} is {key}.")
        for (first, last), key in zip(chosen, keys, strict=True)
    ]


def passage_needles(
    data: Collection | str | os.PathLike[str], num: int, *, split: str = "test", seed: int = 0
) -> list[Needle]:
    """Take passages that a data set judges relevant, each with a question that it answers; no passage comes twice.

    Raises:
        DataError: A broken folder, or no such split.
        ValueError: The split has fewer.
    """
    folder = open_collection(os.fspath(data)) if isinstance(data, (str, os.PathLike)) else data
    qrels, questions = folder.qrels(split), folder.judged_queries(split)
    passage_of = {
        query: next((id for id, grade in judged.items() if grade >= 1), None)
        for query, judged in qrels.items()
        if query in questions
    }
    wanted = {id for id in passage_of.values() if id is not None}
    texts = {document.id: document.full_text for document in folder.documents() if document.id in wanted}
    first_question: dict[str, str] = {}
    for query, id in passage_of.items():
        if id is not None and texts.get(id):
            first_question.setdefault(id, questions[query])
    if not 1 <= num <= len(first_question):
        raise ValueError(
            f"{num} needles and distractors; split {split!r} of {folder.name} has {len(first_question)} passages that "
            "answer a question: ask for fewer"
        )
    chosen = random.Random(seed).sample(sorted(first_question), num)
    return [Needle(first_question[id], " ".join(texts[id].split())) for id in chosen]
