//! The table of built-in functions.

use std::ops::RangeInclusive;

use crate::operators::{BinaryNumberOp, ReduceAggregator, UnaryNumberOp};

/// A built-in function as documented.
#[derive(Debug)]
pub struct BuiltinFunction {
    /// Name of the function.
    pub name: &'static str,
    /// Syntax of a call.
    pub usage: &'static str,
    /// Number of arguments.
    pub arity: RangeInclusive<usize>,
    /// Description of the result.
    pub doc: &'static str,
    pub(crate) code: FunctionCode,
}

impl PartialEq for BuiltinFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// Implementation of a built-in function.
#[derive(Debug)]
pub(crate) enum FunctionCode {
    /// On a number, or on each cell of a tensor.
    Unary(UnaryNumberOp),
    /// On two numbers, or on the cells of two joined tensors.
    Binary(BinaryNumberOp),
    /// [`FunctionCode::Binary`] for two values; for one tensor and names of its dimensions, the aggregator
    /// with the same name.
    BinaryOrReduce(BinaryNumberOp, ReduceAggregator),
    /// One tensor; the other arguments are dimension names.
    Reduce(ReduceAggregator),
    /// An expression of other functions. The parameters are the first arguments; `dims` is the rest,
    /// dimension names.
    Expansion(&'static [&'static str], &'static str),
    /// A primitive with its own syntax.
    Form(FunctionForm),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FunctionForm {
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
pub(crate) fn function(name: &str) -> Option<&'static BuiltinFunction> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

/// Table rows: name, usage, arity, description, code.
macro_rules! functions {
    ($($name:literal, $usage:literal, $arity:expr, $doc:literal, $code:expr;)*) => {
        &[$(BuiltinFunction { name: $name, usage: $usage, arity: $arity, doc: $doc, code: $code }),*]
    };
}

use FunctionCode::{BinaryOrReduce, Expansion, Form as F, Reduce};

/// Maximum number of dimension names, equal to the maximum of a tensor.
const DIMS: usize = 32;

/// All built-in functions, by name.
#[rustfmt::skip]
pub static FUNCTIONS: &[BuiltinFunction] = functions! {
    "abs", "abs(x)", 1..=1, "The absolute value.", FunctionCode::Unary(UnaryNumberOp::Abs);
    "acos", "acos(x)", 1..=1, "The inverse cosine.", FunctionCode::Unary(UnaryNumberOp::Acos);
    "argmax", "argmax(t, dim, …)", 1..=DIMS, "1 in the cells with the highest value along the dimensions, 0 in the others.",
        Expansion(&["t"], "join(t, reduce(t, max, dims), f(x,y)(if (x == y, 1, 0)))");
    "argmin", "argmin(t, dim, …)", 1..=DIMS, "1 in the cells with the lowest value along the dimensions, 0 in the others.",
        Expansion(&["t"], "join(t, reduce(t, min, dims), f(x,y)(if (x == y, 1, 0)))");
    "asin", "asin(x)", 1..=1, "The inverse sine.", FunctionCode::Unary(UnaryNumberOp::Asin);
    "atan", "atan(x)", 1..=1, "The inverse tangent.", FunctionCode::Unary(UnaryNumberOp::Atan);
    "atan2", "atan2(y, x)", 2..=2, "The inverse tangent of y / x, in the quadrant that their signs give.", FunctionCode::Binary(BinaryNumberOp::Atan2);
    "avg", "avg(t, dim, …)", 1..=DIMS, "The mean along the dimensions, or of all cells.", Reduce(ReduceAggregator::Avg);
    "bit", "bit(x, y)", 2..=2, "Bit y, from 0 for the lowest, of x as int8.", FunctionCode::Binary(BinaryNumberOp::Bit);
    "ceil", "ceil(x)", 1..=1, "The lowest whole number not below x.", FunctionCode::Unary(UnaryNumberOp::Ceil);
    "cell_cast", "cell_cast(t, cell_type)", 2..=2, "The same cells as double, float, bfloat16 or int8.", F(FunctionForm::CellCast);
    "cell_order", "cell_order(t, max)", 2..=2, "Each cell's rank, 0 for the largest (max) or smallest (min).", F(FunctionForm::CellOrder);
    "concat", "concat(t1, t2, dim)", 3..=3, "Both tensors, one after the other along an indexed dimension.", F(FunctionForm::Concat);
    "cos", "cos(x)", 1..=1, "The cosine.", FunctionCode::Unary(UnaryNumberOp::Cos);
    "cosh", "cosh(x)", 1..=1, "The hyperbolic cosine.", FunctionCode::Unary(UnaryNumberOp::Cosh);
    "cosine_similarity", "cosine_similarity(t1, t2, dim)", 3..=DIMS, "The cosine of the angle between two vectors.",
        Expansion(&["t1", "t2"], "reduce(t1*t2, sum, dims) / sqrt(reduce(t1*t1, sum, dims) * reduce(t2*t2, sum, dims))");
    "count", "count(t, dim, …)", 1..=DIMS, "The number of cells along the dimensions, or of all.", Reduce(ReduceAggregator::Count);
    "diag", "diag(x[n1],y[n2],…) or diag(n1, n2)", 2..=2, "1 where all indexes are equal, and 0 elsewhere; with sizes alone, the dimensions are i and j.", F(FunctionForm::Diag);
    "elu", "elu(x)", 1..=1, "The exponential linear unit: exp(x) - 1 below 0, else x.", FunctionCode::Unary(UnaryNumberOp::Elu);
    "erf", "erf(x)", 1..=1, "The error function.", FunctionCode::Unary(UnaryNumberOp::Erf);
    "euclidean_distance", "euclidean_distance(t1, t2, dim)", 3..=DIMS, "The length of the straight line between two points.",
        Expansion(&["t1", "t2"], "sqrt(reduce(join(t1, t2, f(x,y)((x-y)*(x-y))), sum, dims))");
    "exp", "exp(x)", 1..=1, "e to the power of x.", FunctionCode::Unary(UnaryNumberOp::Exp);
    "expand", "expand(t, dim)", 2..=2, "The tensor with one more indexed dimension, of size 1.", F(FunctionForm::Expand);
    "fabs", "fabs(x)", 1..=1, "The absolute value.", FunctionCode::Unary(UnaryNumberOp::Abs);
    "filter_subspaces", "filter_subspaces(t, f(x)(…))", 2..=2, "The dense subspaces for which the function is true.", F(FunctionForm::FilterSubspaces);
    "floor", "floor(x)", 1..=1, "The highest whole number not above x.", FunctionCode::Unary(UnaryNumberOp::Floor);
    "fmod", "fmod(x, y)", 2..=2, "The remainder of x / y, with the sign of x.", FunctionCode::Binary(BinaryNumberOp::Mod);
    "hamming", "hamming(x, y)", 2..=2, "How many bits differ between x and y as int8.", FunctionCode::Binary(BinaryNumberOp::Hamming);
    "isNan", "isNan(x)", 1..=1, "1 when x is not a number, else 0.", FunctionCode::Unary(UnaryNumberOp::IsNan);
    "join", "join(t1, t2, f(x,y)(…))", 3..=3, "The function of the cells of both tensors whose addresses agree.", F(FunctionForm::Join);
    "l1_normalize", "l1_normalize(t, dim, …)", 1..=DIMS, "The cells divided by their sum along the dimensions.",
        Expansion(&["t"], "join(t, reduce(t, sum, dims), f(x,y)(x / y))");
    "l2_normalize", "l2_normalize(t, dim, …)", 1..=DIMS, "The cells divided by the length of the vector along the dimensions.",
        Expansion(&["t"], "join(t, map(reduce(map(t, f(x)(x * x)), sum, dims), f(x)(sqrt(x))), f(x,y)(x / y))");
    "ldexp", "ldexp(x, exp)", 2..=2, "x times 2 to the power of exp, cut to a whole number.", FunctionCode::Binary(BinaryNumberOp::Ldexp);
    "log", "log(x)", 1..=1, "The natural logarithm.", FunctionCode::Unary(UnaryNumberOp::Log);
    "log10", "log10(x)", 1..=1, "The logarithm to base 10.", FunctionCode::Unary(UnaryNumberOp::Log10);
    "map", "map(t, f(x)(…))", 2..=2, "The function of each cell.", F(FunctionForm::Map);
    "map_subspaces", "map_subspaces(t, f(d)(…))", 2..=2, "The function of each dense subspace.", F(FunctionForm::MapSubspaces);
    "matmul", "matmul(t1, t2, dim)", 3..=DIMS, "The product of two tensors, summed along a dimension.",
        Expansion(&["t1", "t2"], "reduce(t1 * t2, sum, dims)");
    "max", "max(x, y) or max(t, dim, …)", 1..=DIMS, "The larger of two, or the largest along the dimensions.", BinaryOrReduce(BinaryNumberOp::Max, ReduceAggregator::Max);
    "median", "median(t, dim, …)", 1..=DIMS, "The median along the dimensions, or of all cells.", Reduce(ReduceAggregator::Median);
    "merge", "merge(t1, t2, f(x,y)(…))", 3..=3, "All cells of both tensors; where both have one, the function of the two.", F(FunctionForm::Merge);
    "min", "min(x, y) or min(t, dim, …)", 1..=DIMS, "The smaller of two, or the smallest along the dimensions.", BinaryOrReduce(BinaryNumberOp::Min, ReduceAggregator::Min);
    "pow", "pow(x, y)", 2..=2, "x to the power of y.", FunctionCode::Binary(BinaryNumberOp::Pow);
    "prod", "prod(t, dim, …)", 1..=DIMS, "The product along the dimensions, or of all cells.", Reduce(ReduceAggregator::Prod);
    "range", "range(x[n1],y[n2],…) or range(n)", 1..=1, "The sum of the indexes; with a size alone, the dimension is i.", F(FunctionForm::Range);
    "reduce", "reduce(t, aggregator, dim, …)", 2..=DIMS, "The aggregator (avg, count, max, median, min, prod, sum) along the dimensions, or of all cells.", F(FunctionForm::Reduce);
    "relu", "relu(x)", 1..=1, "The rectified linear unit: the larger of x and 0.", FunctionCode::Unary(UnaryNumberOp::Relu);
    "rename", "rename(t, dim, new) or rename(t, (d1,d2), (n1,n2))", 3..=3, "The tensor with other names of dimensions.", F(FunctionForm::Rename);
    "round", "round(x)", 1..=1, "The nearest whole number; halves go up.", FunctionCode::Unary(UnaryNumberOp::Round);
    "sigmoid", "sigmoid(x)", 1..=1, "The logistic function 1 / (1 + exp(-x)).", FunctionCode::Unary(UnaryNumberOp::Sigmoid);
    "sign", "sign(x)", 1..=1, "-1, 0 or 1 as x is below, at or above 0.", FunctionCode::Unary(UnaryNumberOp::Sign);
    "sin", "sin(x)", 1..=1, "The sine.", FunctionCode::Unary(UnaryNumberOp::Sin);
    "sinh", "sinh(x)", 1..=1, "The hyperbolic sine.", FunctionCode::Unary(UnaryNumberOp::Sinh);
    "softmax", "softmax(t, dim, …)", 1..=DIMS, "exp(t) divided by its sum along the dimensions.",
        Expansion(&["t"], "join(map(t, f(x)(exp(x))), reduce(map(t, f(x)(exp(x))), sum, dims), f(x,y)(x / y))");
    "sqrt", "sqrt(x)", 1..=1, "The square root.", FunctionCode::Unary(UnaryNumberOp::Sqrt);
    "square", "square(x)", 1..=1, "x times x.", FunctionCode::Unary(UnaryNumberOp::Square);
    "sum", "sum(t, dim, …)", 1..=DIMS, "The sum along the dimensions, or of all cells.", Reduce(ReduceAggregator::Sum);
    "tan", "tan(x)", 1..=1, "The tangent.", FunctionCode::Unary(UnaryNumberOp::Tan);
    "tanh", "tanh(x)", 1..=1, "The hyperbolic tangent.", FunctionCode::Unary(UnaryNumberOp::Tanh);
    "top", "top(n, t)", 2..=2, "The n cells of a mapped tensor with the highest values.",
        Expansion(&["n", "t"], "t * filter_subspaces(cell_order(t, max) < n, f(s)(s))");
    "unpack_bits", "unpack_bits(t, cell_type, big)", 1..=3, "The bits of int8 cells as cells of their own, highest bit first (big) or last (little).", F(FunctionForm::UnpackBits);
    "xw_plus_b", "xw_plus_b(x, w, b, dim)", 4..=DIMS, "x times w summed along a dimension, plus b.",
        Expansion(&["x", "w", "b"], "join(reduce(join(x, w, f(x,y)(x * y)), sum, dims), b, f(x,y)(x + y))");
};
