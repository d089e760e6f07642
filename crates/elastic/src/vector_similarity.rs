//! Similarities of vectors, and the scores that they give.

use serde_json::{Map, Value};

use crate::mapping::type_of;

/// Numbers that a vector may have.
pub(crate) const VECTOR_LENGTH_MAX: usize = 16_000;

/// True for the types of fields with a vector.
pub(crate) fn is_vector(kind: &str) -> bool {
    matches!(kind, "dense_vector" | "knn_vector")
}

/// Number of the numbers that the vectors of a field have; `None` if its mapping does not say.
pub(crate) fn dimensions_of(definition: &Map<String, Value>) -> Option<usize> {
    let value = definition.get("dims").or_else(|| definition.get("dimension"))?;
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
    usize::try_from(number).ok()
}

/// Numbers of a vector; `None` if the value is another one.
pub(crate) fn vector_of(value: &Value) -> Option<Vec<f64>> {
    let elements = value.as_array()?;
    let is_long = elements.is_empty() || elements.len() > VECTOR_LENGTH_MAX;
    if is_long { None } else { elements.iter().map(Value::as_f64).collect() }
}

/// True if the elements of the vectors of a field are bytes.
fn is_of_bytes(definition: &Map<String, Value>) -> bool {
    ["element_type", "data_type"].iter().any(|name| definition.get(*name).is_some_and(|kind| kind == "byte"))
}

/// An element that the vectors of a field cannot have: one that is no byte, where they are of bytes.
pub(crate) fn misfit_of(definition: &Map<String, Value>, vector: &[f64]) -> Option<f64> {
    let is_byte = |element: &f64| element.fract() == 0.0 && (-128.0..=127.0).contains(element);
    let misfit = vector.iter().copied().find(|element| !is_byte(element));
    misfit.filter(|_| is_of_bytes(definition))
}

/// Measure by which two vectors are compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum VectorSimilarity {
    Cosine,
    /// The product of two vectors of length 1; true if their elements are bytes.
    Dot(bool),
    /// The product of two vectors of any length.
    Product,
    Euclidean,
    /// Sum of the differences, and the largest of them.
    Manhattan,
    Chebyshev,
}

impl VectorSimilarity {
    /// Measure of a name; `None` if there is no such measure.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "cosine" | "cosinesimil" => VectorSimilarity::Cosine,
            "dot_product" => VectorSimilarity::Dot(false),
            "max_inner_product" | "innerproduct" => VectorSimilarity::Product,
            "l2_norm" | "l2" => VectorSimilarity::Euclidean,
            "l1" => VectorSimilarity::Manhattan,
            "linf" => VectorSimilarity::Chebyshev,
            _ => return None,
        })
    }

    /// Measure that the mapping of a field names, or that of its type.
    pub(crate) fn of_field(definition: &Map<String, Value>) -> Self {
        let of_method = || definition.get("method").and_then(|method| method.get("space_type"));
        let (named, otherwise) = match type_of(definition) {
            "knn_vector" => (definition.get("space_type").or_else(of_method), VectorSimilarity::Euclidean),
            _ => (definition.get("similarity"), VectorSimilarity::Cosine),
        };
        match named.and_then(Value::as_str).and_then(VectorSimilarity::parse).unwrap_or(otherwise) {
            VectorSimilarity::Dot(_) => VectorSimilarity::Dot(is_of_bytes(definition)),
            other => other,
        }
    }

    /// Score of a vector for another one of the same length. It is not a number if the measure has none for
    /// them: the cosine of a vector of zeros.
    pub(crate) fn score(self, wanted: &[f64], stored: &[f64]) -> f64 {
        match self {
            VectorSimilarity::Cosine => (1.0 + cosine(wanted, stored)) / 2.0,
            VectorSimilarity::Dot(_) => self.score_at_similarity(dot(wanted, stored), wanted.len()),
            VectorSimilarity::Product => of_product(dot(wanted, stored)),
            VectorSimilarity::Euclidean => 1.0 / (1.0 + euclidean_squared(wanted, stored)),
            VectorSimilarity::Manhattan => 1.0 / (1.0 + manhattan(wanted, stored)),
            VectorSimilarity::Chebyshev => 1.0 / (1.0 + chebyshev(wanted, stored)),
        }
    }

    /// Score of vectors of a length and a similarity, as Elasticsearch has it as the least of a query.
    pub(crate) fn score_at_similarity(self, similarity: f64, length: usize) -> f64 {
        match self {
            VectorSimilarity::Cosine => (1.0 + similarity) / 2.0,
            // Vectors of other lengths than 1 have other products; no score is negative.
            VectorSimilarity::Dot(false) => ((1.0 + similarity) / 2.0).max(0.0),
            VectorSimilarity::Dot(true) => 0.5 + similarity / (32_768.0 * length as f64),
            VectorSimilarity::Product => of_product(similarity),
            VectorSimilarity::Euclidean => 1.0 / (1.0 + similarity * similarity),
            VectorSimilarity::Manhattan | VectorSimilarity::Chebyshev => 1.0 / (1.0 + similarity),
        }
    }

    /// Score of vectors at a distance, as OpenSearch has it as the largest of a query.
    pub(crate) fn score_at_distance(self, distance: f64) -> f64 {
        match self {
            VectorSimilarity::Cosine | VectorSimilarity::Dot(_) => (2.0 - distance) / 2.0,
            VectorSimilarity::Product => of_product(-distance),
            VectorSimilarity::Euclidean | VectorSimilarity::Manhattan | VectorSimilarity::Chebyshev => {
                1.0 / (1.0 + distance)
            }
        }
    }
}

/// Score of a product of two vectors, which may be any number.
fn of_product(product: f64) -> f64 {
    if product < 0.0 { 1.0 / (1.0 - product) } else { product + 1.0 }
}

fn differences(one: &[f64], other: &[f64]) -> impl Iterator<Item = f64> {
    one.iter().zip(other).map(|(one, other)| (one - other).abs())
}

/// Sum of the products of the elements.
pub(crate) fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

/// Cosine of the angle between two vectors.
pub(crate) fn cosine(one: &[f64], other: &[f64]) -> f64 {
    dot(one, other) / (dot(one, one) * dot(other, other)).sqrt()
}

/// Square of the distance of two vectors.
pub(crate) fn euclidean_squared(one: &[f64], other: &[f64]) -> f64 {
    differences(one, other).map(|difference| difference * difference).sum()
}

/// Sum of the differences of the elements.
pub(crate) fn manhattan(one: &[f64], other: &[f64]) -> f64 {
    differences(one, other).sum()
}

/// Largest difference of the elements.
pub(crate) fn chebyshev(one: &[f64], other: &[f64]) -> f64 {
    differences(one, other).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_have_the_scores_of_their_measures() {
        for (definition, expected) in [
            (json!({ "type": "dense_vector" }), 0.5),
            (json!({ "type": "dense_vector", "similarity": "cosine" }), 0.5),
            (json!({ "type": "dense_vector", "similarity": "dot_product" }), 0.5),
            (json!({ "type": "dense_vector", "similarity": "l2_norm" }), 1.0 / 26.0),
            (json!({ "type": "dense_vector", "similarity": "max_inner_product" }), 1.0),
            (json!({ "type": "knn_vector" }), 1.0 / 26.0),
            (json!({ "type": "knn_vector", "space_type": "l1" }), 1.0 / 8.0),
            (json!({ "type": "knn_vector", "method": { "space_type": "linf" } }), 1.0 / 5.0),
            (json!({ "type": "knn_vector", "method": { "space_type": "cosinesimil" } }), 0.5),
        ] {
            let similarity = VectorSimilarity::of_field(definition.as_object().expect("an object"));
            let score = similarity.score(&[4.0, 0.0], &[0.0, 3.0]);
            assert!((score - expected).abs() < 1e-12, "{definition}: {score}");
        }
        let bytes = json!({ "type": "dense_vector", "similarity": "dot_product", "element_type": "byte" });
        let similarity = VectorSimilarity::of_field(bytes.as_object().expect("an object"));
        assert_eq!(similarity.score(&[64.0, 64.0], &[64.0, 64.0]), 0.625);
        assert_eq!(similarity.score_at_similarity(8_192.0, 2), 0.625);
        let long = VectorSimilarity::parse("dot_product").expect("a measure");
        assert_eq!(long.score(&[3.0, 0.0], &[-1.0, 0.0]), 0.0, "no score is negative");
    }

    #[test]
    fn limits_are_scores_of_vectors_at_them() {
        for (name, similarity, distance) in
            [("cosine", 0.6, 0.4), ("max_inner_product", 3.0, -3.0), ("max_inner_product", -3.0, 3.0)]
        {
            let measure = VectorSimilarity::parse(name).expect("a measure");
            let (one, other) =
                (measure.score_at_similarity(similarity, 2), measure.score_at_distance(distance));
            assert!((one - other).abs() < 1e-12, "{name} {similarity}: {one} {other}");
        }
        let euclidean = VectorSimilarity::Euclidean;
        assert_eq!(euclidean.score_at_similarity(5.0, 2), euclidean.score(&[3.0, 0.0], &[0.0, 4.0]));
        assert_eq!(euclidean.score_at_distance(25.0), euclidean.score(&[3.0, 0.0], &[0.0, 4.0]));
        assert_eq!(of_product(-3.0), 0.25);
    }
}
