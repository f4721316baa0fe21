"""Indexes and encoders in the terms of other libraries: LangChain, LlamaIndex, Haystack and mteb.

Each module needs its library, which the extra of the same name brings, and says so where it is missing. The retrievers
take the same arguments:

    index            path of an index directory, or a `Retriever`
    mode             how documents are found: "dense", "bm25" or "hybrid"; by default as the Retriever, or "dense"
    reranker         for a path: what scores again what was found
    options          for a path: what else `Retriever` takes, such as {"device": "cpu", "fusion": "weighted"}
    top_k, depth, where, document_weight
                     as for `Retriever.search`
    content          what a hit is there: "document", its title and text, or "passage", the part of them that matched

A hit has all metadata of its document, and `title` and `span` (None, or start and end of the characters that matched,
counted in title and text joined by a space: in the content, where that is the document). These two win over metadata
of the same name.
"""

__all__: list[str] = []
