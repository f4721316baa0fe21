import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import CrossEncoder, SentenceTransformer
from torch import Tensor
from transformers import AutoTokenizer

from aveyb_ir.data import TrainingRow
from aveyb_ir.errors import DataError, ModelError, RecipeError
from aveyb_ir.models import AveyBConfig, AveyBForSequenceClassification
from aveyb_ir.tasks import DistillRecipe, DistillSection
from aveyb_ir.training import distill
from aveyb_ir.training import distillation_teacher as teachers
from aveyb_ir.training.distillation_candidates import candidates_of
from aveyb_ir.training.distillation_loss import (
    EmbeddingDistillationLoss,
    principal_axes,
    score_loss,
    similarity_divergence,
)
from aveyb_ir.training.rows import RowSet

NAMES = ["sun", "moon", "star", "rain", "wind", "snow", "leaf", "rock"]
QUERIES = ["where do ships return", "who discovered penicillin", "what is a retriever"]
DOCUMENTS = ["ships return at night with fish", "penicillin was discovered by Fleming", "it finds documents"]

MakeDistill = Callable[..., DistillRecipe]


def mined_rows() -> list[dict[str, Any]]:
    """Short rows whose teacher likes the third candidate best."""
    others = [NAMES[number:] + NAMES[:number] for number in range(len(NAMES))]
    return [
        {
            "query": f"what is {name}",
            "pos": [f"{name} here"],
            "neg": [f"{a} there", f"{b} now", f"{c} never"],
            "pos_scores": [4.0],
            "neg_scores": [1.0, 7.0, -2.0],
        }
        for name, a, b, c, *_ in others
    ]


@pytest.fixture
def mined(tmp_path: Path) -> Path:
    path = tmp_path / "mined.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in mined_rows()), encoding="utf-8")
    return path


@pytest.fixture
def make(tmp_path: Path, mined: Path) -> MakeDistill:
    """A recipe for a tiny fresh Avey-B and mined rows; keywords go to the train section."""

    def make(
        distill: dict[str, Any] | None = None,
        teacher: dict[str, Any] | None = None,
        model: dict[str, Any] | None = None,
        pairs: Path | None = None,
        negatives: int | None = 3,
        **train: Any,
    ) -> DistillRecipe:
        fresh = {"d_embed": 24, "n_layers": 2, "chunk_size": 16, "initializer_range": 0.3}
        model = {"fresh": fresh, "train_tokenizer": {"vocab_size": 300}, **(model or {})}
        data = {"pairs": str(pairs or mined), "negatives": negatives}
        train = {"output": str(tmp_path / "out"), "batch_size": 8, "device": "cpu", "learning_rate": 3e-3, **train}
        values = {"model": model, "data": data, "teacher": teacher, "distill": distill or {}, "train": train}
        return DistillRecipe.model_validate(values)

    return make


@pytest.fixture
def student(avey_dir: Path) -> SentenceTransformer:
    return SentenceTransformer(str(avey_dir), device="cpu").double()


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory, avey_dir: Path) -> Path:
    folder = tmp_path_factory.mktemp("cross")
    tokenizer = AutoTokenizer.from_pretrained(avey_dir)
    torch.manual_seed(2)
    config = AveyBConfig(
        vocab_size=len(tokenizer), d_embed=16, n_layers=2, chunk_size=16, num_labels=1, initializer_range=1.0
    )
    AveyBForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def lines(path: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def gradients(model: torch.nn.Module) -> dict[str, Tensor]:
    found = {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}
    model.zero_grad()
    return found


def columns(model: SentenceTransformer, *texts: list[str]) -> list[dict[str, Tensor]]:
    return [dict(model.preprocess(column)) for column in texts]


def embedded(model: SentenceTransformer, *texts: list[str]) -> Iterator[Tensor]:
    for column in columns(model, *texts):
        vectors = model(column)["sentence_embedding"]
        yield vectors / vectors.norm(dim=1, keepdim=True)


@pytest.mark.parametrize("name", ["margin_mse", "kl"])
def test_score_losses_are_their_written_out_formulas(student: SentenceTransformer, name: str) -> None:
    section = DistillSection(loss=name, scale=8.0, teacher_temperature=2.0)
    teacher = torch.tensor([[3.0, 1.0, -2.0], [0.5, 0.0, 4.0], [2.0, 2.0, 1.0]], dtype=torch.float64)
    texts = (QUERIES, DOCUMENTS, DOCUMENTS[1:] + DOCUMENTS[:1], DOCUMENTS[2:] + DOCUMENTS[:2])
    loss = score_loss(student, section)(columns(student, *texts), teacher)
    loss.backward()
    found = gradients(student)

    def expected(target: Tensor) -> Tensor:
        query, *documents = embedded(student, *texts)
        scores = torch.stack([8.0 * (query * document).sum(1) for document in documents], dim=1)
        if name == "margin_mse":
            errors = [(scores[i, 0] - scores[i, j]) - (target[i, 0] - target[i, j]) for i in range(3) for j in (1, 2)]
            return torch.stack([error**2 for error in errors]).mean()
        p, q = torch.softmax(target / 2.0, dim=1), torch.softmax(scores, dim=1)
        return (p * (p.log() - q.log())).sum() / 3

    exact = expected(teacher)
    exact.backward()
    assert loss.item() == pytest.approx(exact.item(), rel=1e-4)
    for weight, gradient in gradients(student).items():
        assert torch.allclose(found[weight], gradient, rtol=1e-3, atol=1e-5), weight

    expected(teacher.flip(1)).backward()  # the check notices scores in another order
    wrong = gradients(student)
    assert not all(torch.allclose(found[weight], wrong[weight], rtol=1e-3, atol=1e-5) for weight in found)


def test_similarity_divergence_is_its_written_out_formula() -> None:
    generator = torch.Generator().manual_seed(5)
    student = torch.randn(4, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    teacher = torch.randn(4, 6, generator=generator, dtype=torch.float64)

    def probabilities(vectors: Tensor, row: int) -> Tensor:
        others = [other for other in range(4) if other != row]
        cosines = torch.stack([torch.cosine_similarity(vectors[row], vectors[o], dim=0) for o in others])
        return torch.softmax(5.0 * cosines, dim=0)

    divergence = similarity_divergence(student, teacher, 5.0)
    (found,) = torch.autograd.grad(divergence, student)
    pairs = [(probabilities(teacher, row), probabilities(student, row)) for row in range(4)]
    exact = torch.stack([(p * (p / q).log()).sum() for p, q in pairs]).mean()
    (gradient,) = torch.autograd.grad(exact, student)
    assert divergence.item() == pytest.approx(exact.item(), rel=1e-9)
    assert torch.allclose(found, gradient)
    assert not torch.allclose(torch.autograd.grad(similarity_divergence(student, teacher, 4.0), student)[0], gradient)
    assert similarity_divergence(teacher, 3 * teacher, 5.0).item() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("projection", ["pca", "learned"])
def test_embedding_loss_is_its_written_out_formula(student: SentenceTransformer, projection: str) -> None:
    vectors = np.random.default_rng(4).normal(size=(6, 60)).astype(np.float32)
    axes = principal_axes([vectors], 48) if projection == "pca" else None
    loss_of = EmbeddingDistillationLoss(
        student, vectors.__getitem__, axes=axes, teacher_width=60, scale=5.0, similarity_weight=0.5
    )
    if loss_of.projection is not None:
        loss_of.projection.double()
    labels = torch.tensor([[0, 3], [1, 4], [2, 5]])
    loss = loss_of(columns(student, QUERIES, DOCUMENTS), labels)
    loss.backward()
    found = gradients(loss_of)

    def expected(rows: list[int]) -> Tensor:
        students = torch.cat(list(embedded(student, QUERIES, DOCUMENTS)))
        teacher = torch.from_numpy(vectors[rows]).double()
        if projection == "pca":
            target, shown = teacher @ torch.from_numpy(axes).double(), students
        else:
            target, shown = teacher, students @ loss_of.projection.weight.T + loss_of.projection.bias
        cosines = torch.cosine_similarity(shown, target)
        return (1 - cosines).mean() + 0.5 * similarity_divergence(students, teacher, 5.0)

    exact = expected([0, 1, 2, 3, 4, 5])
    exact.backward()
    assert loss.item() == pytest.approx(exact.item(), rel=1e-4)
    for weight, gradient in gradients(loss_of).items():
        assert torch.allclose(found[weight], gradient, rtol=1e-3, atol=1e-5), weight
    assert expected([3, 4, 5, 0, 1, 2]).item() != pytest.approx(exact.item(), rel=1e-3)


def test_principal_axes_keep_dot_products_best() -> None:
    generator = np.random.default_rng(7)
    vectors = (generator.normal(size=(200, 5)) @ generator.normal(size=(5, 12))).astype(np.float32)
    axes = principal_axes([vectors[:90], vectors[90:]], 5)
    assert np.allclose(axes.T @ axes, np.eye(5), atol=1e-5)
    narrow = vectors @ axes
    assert np.allclose(narrow @ narrow.T, vectors @ vectors.T, rtol=1e-3, atol=1e-3)
    first = vectors[:, :5]
    assert not np.allclose(first @ first.T, vectors @ vectors.T, rtol=1e-3, atol=1e-3)


def test_learns_the_order_of_the_rows_scores(make: MakeDistill) -> None:
    recipe = make({"loss": "kl"}, max_steps=30, learning_rate=2e-2)
    result = distill(recipe)
    log = lines(result.loss_log)
    assert result.final_loss < 0.5 * log[0]["loss"]
    model = SentenceTransformer(str(result.output), device="cpu")
    best = []
    for row in mined_rows():
        scores = model.encode(row["query"]) @ model.encode(row["pos"] + row["neg"]).T
        best.append(int(scores.argmax()) == int(np.argmax(row["pos_scores"] + row["neg_scores"])))
    assert np.mean(best) > 0.9
    assert result.tokens_per_second > 0


def test_margins_are_learnt_as_well(make: MakeDistill) -> None:
    result = distill(make({"loss": "margin_mse", "scale": 20.0}, max_steps=15, learning_rate=2e-2))
    log = lines(result.loss_log)
    assert result.final_loss < 0.5 * log[0]["loss"]


def test_a_cross_encoder_is_asked_once_and_its_scores_are_kept(
    make: MakeDistill, cross_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    teacher = {"model": str(cross_encoder), "kind": "cross_encoder", "kept": str(tmp_path / "kept")}
    first = distill(make(teacher=teacher, max_steps=2))
    rows = mined_rows()
    (file,) = (tmp_path / "kept").glob("scores-*.npy")
    exact = CrossEncoder(str(cross_encoder), device="cpu").predict(
        [(rows[3]["query"], text) for text in rows[3]["pos"] + rows[3]["neg"]], activation_fn=torch.nn.Identity()
    )
    assert np.allclose(np.load(file)[3], exact, atol=1e-5)
    assert np.ptp(np.load(file)) > 0.01

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("asked again")

    monkeypatch.setattr(CrossEncoder, "predict", refuse)
    again = distill(make(teacher=teacher, max_steps=2), overwrite=True)
    assert again.final_loss == first.final_loss
    with pytest.raises(AssertionError, match="asked again"):
        distill(make(teacher=teacher, negatives=2, max_steps=2), overwrite=True)
    file.write_bytes(b"x")
    with pytest.raises(DataError, match="expected a teacher's scores; remove the file"):
        distill(make(teacher=teacher, max_steps=2), overwrite=True)


@pytest.mark.parametrize("loss", ["kl", "embedding"])
def test_a_bi_encoder_teaches_by_cosines_or_vectors(
    make: MakeDistill, avey_dir: Path, tmp_path: Path, loss: str
) -> None:
    teacher = {"model": str(avey_dir), "kept": str(tmp_path / "kept")}
    recipe = make(
        {"loss": loss, "teacher_temperature": 0.05}, teacher=teacher, negatives=1, max_steps=12, learning_rate=2e-2
    )
    result = distill(recipe)
    assert result.final_loss < 0.8 * lines(result.loss_log)[0]["loss"]
    record = json.loads((result.output / "training.json").read_text(encoding="utf-8"))
    assert len(record["teacher_fingerprint"]) == 32
    assert any((tmp_path / "kept").rglob("*.npy"))


def test_vectors_are_the_teachers(avey_dir: Path, tmp_path: Path) -> None:
    rows = [TrainingRow(query, (text,)) for query, text in zip(QUERIES, DOCUMENTS, strict=True)]
    candidates = candidates_of(RowSet.of(rows, "rows"), 0)
    section = DistillRecipe.model_fields["teacher"].annotation.__args__[0](model=str(avey_dir))
    vectors = teachers.teacher_vectors(section, candidates, tmp_path / "kept", "cpu")
    model = SentenceTransformer(str(avey_dir), device="cpu")
    rows_of = vectors.rows_of(candidates)
    assert np.allclose(vectors[rows_of[:, 0]], model.encode_query(QUERIES), atol=1e-5)
    assert np.allclose(vectors[rows_of[:, 1]], model.encode_document(DOCUMENTS), atol=1e-5)
    assert not np.allclose(vectors[rows_of[:, 0]], model.encode_document(QUERIES), atol=1e-3)
    scores = teachers.bi_encoder_scores(vectors, candidates)
    assert np.allclose(scores[:, 0], (model.encode_query(QUERIES) * model.encode_document(DOCUMENTS)).sum(1), atol=1e-5)


@pytest.mark.parametrize("options", [{"loss": "kl"}, {"loss": "embedding", "projection": "learned"}])
def test_a_resumed_run_is_the_uninterrupted_one_bit_for_bit(
    make: MakeDistill, avey_dir: Path, options: dict[str, Any]
) -> None:
    teacher = {"model": str(avey_dir)} if options["loss"] == "embedding" else None
    recipe = make(options, teacher=teacher, negatives=1, max_steps=4, save_steps=2, logging_steps=1)
    whole = distill(recipe)
    weights = load_file(whole.output / "model.safetensors")
    shutil.rmtree(whole.output.with_name("out.checkpoints") / "checkpoint-4")
    resumed = distill(recipe, overwrite=True, resume=True)
    again = load_file(resumed.output / "model.safetensors")
    assert all(torch.equal(again[name], weight) for name, weight in weights.items())
    assert resumed.final_loss == whole.final_loss


def test_fitted_embeddings_start_nearer_to_the_teacher(make: MakeDistill, bert_dir: Path, tmp_path: Path) -> None:
    teacher = {"model": str(bert_dir), "kept": str(tmp_path / "kept")}
    model = {
        "fresh": {"d_embed": 8, "n_layers": 2, "chunk_size": 16, "initializer_range": 0.1},
        "train_tokenizer": None,
        "embeddings_from": str(bert_dir),
    }

    def first_loss(**options: float) -> float:
        recipe = make(
            {"loss": "embedding", "similarity_weight": 0.0, **options}, teacher, model, negatives=None, max_steps=1
        )
        distill(recipe, overwrite=True)
        return lines(tmp_path / "out" / "loss.jsonl")[0]["loss"]

    assert first_loss(fit_embeddings=0.1) < 0.95 * first_loss()


def test_a_fit_needs_targets(make: MakeDistill) -> None:
    with pytest.raises(ValueError, match=r"distill\.fit_embeddings"):
        make({"loss": "kl", "fit_embeddings": 1.0}, max_steps=1)


def test_a_narrow_teacher_needs_a_learned_projection(make: MakeDistill, bert_dir: Path) -> None:
    fresh = {"d_embed": 40, "n_layers": 2, "chunk_size": 16}
    recipe = make({"loss": "embedding"}, teacher={"model": str(bert_dir)}, model={"fresh": fresh}, max_steps=1)
    with pytest.raises(RecipeError, match="pca for a teacher of 32 dimensions and a student of 40"):
        distill(recipe)


def test_a_teacher_that_is_none_is_refused(make: MakeDistill) -> None:
    teacher = {"model": "/nowhere", "kind": "cross_encoder"}
    with pytest.raises(ModelError, match=r"teacher.model: got '/nowhere', expected a model folder"):
        distill(make(teacher=teacher, max_steps=1))


def test_rows_without_scores_need_a_teacher(make: MakeDistill, tmp_path: Path) -> None:
    pairs = tmp_path / "rows.jsonl"
    pairs.write_text('{"query": "a", "pos": ["b"], "neg": ["c"]}\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"rows.jsonl line 1: got no scores, expected pos_scores and neg_scores"):
        distill(make(pairs=pairs, negatives=1, max_steps=1))
