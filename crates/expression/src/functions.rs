//! The table of built-in functions.

use std::ops::RangeInclusive;

use crate::operators::{Aggregator, Binary, Unary};

/// A built-in function as documented.
#[derive(Debug)]
pub struct Function {
    /// Name of the function.
    pub name: &'static str,
    /// Syntax of a call.
    pub usage: &'static str,
    /// Number of arguments.
    pub arity: RangeInclusive<usize>,
    /// Description of the result.
    pub doc: &'static str,
    pub(crate) code: Code,
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// Implementation of a built-in function.
#[derive(Debug)]
pub(crate) enum Code {
    /// On a number, or on each cell of a tensor.
    Unary(Unary),
    /// On two numbers, or on the cells of two joined tensors.
    Binary(Binary),
    /// [`Code::Binary`] for two values; for one tensor and names of its dimensions, the aggregator with the
    /// same name.
    BinaryOrReduce(Binary, Aggregator),
    /// One tensor; the other arguments are dimension names.
    Reduce(Aggregator),
    /// An expression of other functions. The parameters are the first arguments; `dims` is the rest,
    /// dimension names.
    Expansion(&'static [&'static str], &'static str),
    /// A primitive with its own syntax.
    Form(Form),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    CellCast,
    CellOrder,
    Concat,
    Diag,
    Expand,
    FilterSubspaces,
    Join,
    Map,
    MapSubspaces,
    Merge,
    Range,
    Reduce,
    Rename,
    UnpackBits,
}

/// The built-in function with this name.
pub(crate) fn function(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

/// Table rows: name, usage, arity, description, code.
macro_rules! functions {
    ($($name:literal, $usage:literal, $arity:expr, $doc:literal, $code:expr;)*) => {
        &[$(Function { name: $name, usage: $usage, arity: $arity, doc: $doc, code: $code }),*]
    };
}

use Code::{BinaryOrReduce, Expansion, Form as F, Reduce};

/// Maximum number of dimension names, equal to the maximum of a tensor.
const DIMS: usize = 32;

/// All built-in functions, by name.
#[rustfmt::skip]
pub static FUNCTIONS: &[Function] = functions! {
    "abs", "abs(x)", 1..=1, "The absolute value.", Code::Unary(Unary::Abs);
    "acos", "acos(x)", 1..=1, "The inverse cosine.", Code::Unary(Unary::Acos);
    "argmax", "argmax(t, dim, …)", 1..=DIMS, "1 in the cells with the highest value along the dimensions, 0 in the others.",
        Expansion(&["t"], "join(t, reduce(t, max, dims), f(x,y)(if (x == y, 1, 0)))");
    "argmin", "argmin(t, dim, …)", 1..=DIMS, "1 in the cells with the lowest value along the dimensions, 0 in the others.",
        Expansion(&["t"], "join(t, reduce(t, min, dims), f(x,y)(if (x == y, 1, 0)))");
    "asin", "asin(x)", 1..=1, "The inverse sine.", Code::Unary(Unary::Asin);
    "atan", "atan(x)", 1..=1, "The inverse tangent.", Code::Unary(Unary::Atan);
    "atan2", "atan2(y, x)", 2..=2, "The inverse tangent of y / x, in the quadrant that the signs tell.", Code::Binary(Binary::Atan2);
    "avg", "avg(t, dim, …)", 1..=DIMS, "The mean along the dimensions, or of all cells.", Reduce(Aggregator::Avg);
    "bit", "bit(x, y)", 2..=2, "Bit y, from 0 for the lowest, of x as int8.", Code::Binary(Binary::Bit);
    "ceil", "ceil(x)", 1..=1, "The lowest whole number not below x.", Code::Unary(Unary::Ceil);
    "cell_cast", "cell_cast(t, cell_type)", 2..=2, "The same cells as double, float, bfloat16 or int8.", F(Form::CellCast);
    "cell_order", "cell_order(t, max)", 2..=2, "Each cell's rank, 0 for the largest (max) or smallest (min).", F(Form::CellOrder);
    "concat", "concat(t1, t2, dim)", 3..=3, "Both tensors, one after the other along an indexed dimension.", F(Form::Concat);
    "cos", "cos(x)", 1..=1, "The cosine.", Code::Unary(Unary::Cos);
    "cosh", "cosh(x)", 1..=1, "The hyperbolic cosine.", Code::Unary(Unary::Cosh);
    "cosine_similarity", "cosine_similarity(t1, t2, dim)", 3..=DIMS, "The cosine of the angle between two vectors.",
        Expansion(&["t1", "t2"], "reduce(t1*t2, sum, dims) / sqrt(reduce(t1*t1, sum, dims) * reduce(t2*t2, sum, dims))");
    "count", "count(t, dim, …)", 1..=DIMS, "The number of cells along the dimensions, or of all.", Reduce(Aggregator::Count);
    "diag", "diag(n1, n2)", 2..=2, "A matrix i[n1], j[n2] with 1 where i is j and 0 elsewhere.", F(Form::Diag);
    "elu", "elu(x)", 1..=1, "The exponential linear unit: exp(x) - 1 below 0, else x.", Code::Unary(Unary::Elu);
    "erf", "erf(x)", 1..=1, "The error function.", Code::Unary(Unary::Erf);
    "euclidean_distance", "euclidean_distance(t1, t2, dim)", 3..=DIMS, "The length of the straight line between two points.",
        Expansion(&["t1", "t2"], "sqrt(reduce(join(t1, t2, f(x,y)((x-y)*(x-y))), sum, dims))");
    "exp", "exp(x)", 1..=1, "e to the power of x.", Code::Unary(Unary::Exp);
    "expand", "expand(t, dim)", 2..=2, "The tensor with one more indexed dimension, of size 1.", F(Form::Expand);
    "fabs", "fabs(x)", 1..=1, "The absolute value.", Code::Unary(Unary::Abs);
    "filter_subspaces", "filter_subspaces(t, f(x)(…))", 2..=2, "The dense subspaces for which the function is true.", F(Form::FilterSubspaces);
    "floor", "floor(x)", 1..=1, "The highest whole number not above x.", Code::Unary(Unary::Floor);
    "fmod", "fmod(x, y)", 2..=2, "The remainder of x / y, with the sign of x.", Code::Binary(Binary::Mod);
    "hamming", "hamming(x, y)", 2..=2, "How many bits differ between x and y as int8.", Code::Binary(Binary::Hamming);
    "isNan", "isNan(x)", 1..=1, "1 when x is not a number, else 0.", Code::Unary(Unary::IsNan);
    "join", "join(t1, t2, f(x,y)(…))", 3..=3, "The function of the cells of both tensors whose addresses agree.", F(Form::Join);
    "l1_normalize", "l1_normalize(t, dim, …)", 1..=DIMS, "The cells divided by their sum along the dimensions.",
        Expansion(&["t"], "join(t, reduce(t, sum, dims), f(x,y)(x / y))");
    "l2_normalize", "l2_normalize(t, dim, …)", 1..=DIMS, "The cells divided by the length of the vector along the dimensions.",
        Expansion(&["t"], "join(t, map(reduce(map(t, f(x)(x * x)), sum, dims), f(x)(sqrt(x))), f(x,y)(x / y))");
    "ldexp", "ldexp(x, exp)", 2..=2, "x times 2 to the power of exp, cut to a whole number.", Code::Binary(Binary::Ldexp);
    "log", "log(x)", 1..=1, "The natural logarithm.", Code::Unary(Unary::Log);
    "log10", "log10(x)", 1..=1, "The logarithm to base 10.", Code::Unary(Unary::Log10);
    "map", "map(t, f(x)(…))", 2..=2, "The function of each cell.", F(Form::Map);
    "map_subspaces", "map_subspaces(t, f(d)(…))", 2..=2, "The function of each dense subspace.", F(Form::MapSubspaces);
    "matmul", "matmul(t1, t2, dim)", 3..=DIMS, "The product of two tensors, summed along a dimension.",
        Expansion(&["t1", "t2"], "reduce(t1 * t2, sum, dims)");
    "max", "max(x, y) or max(t, dim, …)", 1..=DIMS, "The larger of two, or the largest along the dimensions.", BinaryOrReduce(Binary::Max, Aggregator::Max);
    "median", "median(t, dim, …)", 1..=DIMS, "The median along the dimensions, or of all cells.", Reduce(Aggregator::Median);
    "merge", "merge(t1, t2, f(x,y)(…))", 3..=3, "All cells of both tensors; where both have one, the function of the two.", F(Form::Merge);
    "min", "min(x, y) or min(t, dim, …)", 1..=DIMS, "The smaller of two, or the smallest along the dimensions.", BinaryOrReduce(Binary::Min, Aggregator::Min);
    "pow", "pow(x, y)", 2..=2, "x to the power of y.", Code::Binary(Binary::Pow);
    "prod", "prod(t, dim, …)", 1..=DIMS, "The product along the dimensions, or of all cells.", Reduce(Aggregator::Prod);
    "range", "range(n)", 1..=1, "The numbers 0 to n - 1 in dimension i.", F(Form::Range);
    "reduce", "reduce(t, aggregator, dim, …)", 2..=DIMS, "The aggregator (avg, count, max, median, min, prod, sum) along the dimensions, or of all cells.", F(Form::Reduce);
    "relu", "relu(x)", 1..=1, "The rectified linear unit: the larger of x and 0.", Code::Unary(Unary::Relu);
    "rename", "rename(t, dim, new) or rename(t, (d1,d2), (n1,n2))", 3..=3, "The tensor with other names of dimensions.", F(Form::Rename);
    "round", "round(x)", 1..=1, "The nearest whole number; halves go up.", Code::Unary(Unary::Round);
    "sigmoid", "sigmoid(x)", 1..=1, "The logistic function 1 / (1 + exp(-x)).", Code::Unary(Unary::Sigmoid);
    "sign", "sign(x)", 1..=1, "-1, 0 or 1 as x is below, at or above 0.", Code::Unary(Unary::Sign);
    "sin", "sin(x)", 1..=1, "The sine.", Code::Unary(Unary::Sin);
    "sinh", "sinh(x)", 1..=1, "The hyperbolic sine.", Code::Unary(Unary::Sinh);
    "softmax", "softmax(t, dim, …)", 1..=DIMS, "exp(t) divided by its sum along the dimensions.",
        Expansion(&["t"], "join(map(t, f(x)(exp(x))), reduce(map(t, f(x)(exp(x))), sum, dims), f(x,y)(x / y))");
    "sqrt", "sqrt(x)", 1..=1, "The square root.", Code::Unary(Unary::Sqrt);
    "square", "square(x)", 1..=1, "x times x.", Code::Unary(Unary::Square);
    "sum", "sum(t, dim, …)", 1..=DIMS, "The sum along the dimensions, or of all cells.", Reduce(Aggregator::Sum);
    "tan", "tan(x)", 1..=1, "The tangent.", Code::Unary(Unary::Tan);
    "tanh", "tanh(x)", 1..=1, "The hyperbolic tangent.", Code::Unary(Unary::Tanh);
    "top", "top(n, t)", 2..=2, "The n cells of a mapped tensor with the highest values.",
        Expansion(&["n", "t"], "t * filter_subspaces(cell_order(t, max) < n, f(s)(s))");
    "unpack_bits", "unpack_bits(t, cell_type, big)", 1..=3, "The bits of int8 cells as cells of their own, highest bit first (big) or last (little).", F(Form::UnpackBits);
    "xw_plus_b", "xw_plus_b(x, w, b, dim)", 4..=DIMS, "x times w summed along a dimension, plus b.",
        Expansion(&["x", "w", "b"], "join(reduce(join(x, w, f(x,y)(x * y)), sum, dims), b, f(x,y)(x + y))");
};
