//! `foreach(dimension,variable,feature,condition,operation)`: one feature over many terms or fields, taken together.

use millrace_expression::FeatureName;
use millrace_matching::Demands;

use super::{Chunk, Executor, Feature, Request, Run, Setup, Values, set_up};

/// How many terms are gone through where nothing is said.
const TERMS: f64 = 16.0;

struct Foreach {
    /// For each item the feature of it.
    features: Vec<Box<dyn Feature>>,
    /// The items are terms, of which a query may have fewer.
    over_terms: bool,
    condition: Condition,
    operation: Operation,
}

#[derive(Debug, Clone, Copy)]
enum Condition {
    Always,
    Above(f64),
    Below(f64),
}

#[derive(Debug, Clone, Copy)]
enum Operation {
    Sum,
    Product,
    Average,
    Max,
    Min,
    Count,
}

const OPERATIONS: [(&str, Operation); 6] = [
    ("sum", Operation::Sum),
    ("product", Operation::Product),
    ("average", Operation::Average),
    ("max", Operation::Max),
    ("min", Operation::Min),
    ("count", Operation::Count),
];

pub(crate) fn setup(setup: &Setup<'_>, name: &FeatureName) -> Result<Box<dyn Feature>, String> {
    let [dimension, variable, feature, condition, operation] = name.parameters.as_slice() else {
        return Err(format!("{name}: write foreach(dimension,variable,feature,condition,operation)"));
    };
    let fields = setup.schema.fields.values();
    let items: Vec<String> = match dimension.as_str() {
        "terms" => {
            let count = setup.properties.number("foreach", "", "maxTerms", TERMS)?.clamp(0.0, 1000.0);
            (0..count as usize).map(|term| term.to_string()).collect()
        }
        "fields" => fields.filter(|field| field.is_text()).map(|field| field.name.to_string()).collect(),
        "attributes" => {
            fields.filter(|field| field.attribute.is_some()).map(|field| field.name.to_string()).collect()
        }
        other => {
            return Err(format!("{name}: the dimension is terms, fields or attributes, found '{other}'"));
        }
    };
    let number = |text: &str| {
        text.trim()
            .parse()
            .map_err(|_| format!("{name}: the condition is true, \">a\" or \"<a\", found '{condition}'"))
    };
    let condition = match (condition.as_str(), condition.strip_prefix('>'), condition.strip_prefix('<')) {
        ("true", ..) => Condition::Always,
        (_, Some(bound), _) => Condition::Above(number(bound)?),
        (_, _, Some(bound)) => Condition::Below(number(bound)?),
        _ => return Err(format!("{name}: the condition is true, \">a\" or \"<a\", found '{condition}'")),
    };
    let Some((_, operation)) = OPERATIONS.iter().find(|(known, _)| known == operation) else {
        let known = OPERATIONS.map(|(known, _)| known).join(", ");
        return Err(format!("{name}: the operation is one of {known}, found '{operation}'"));
    };
    if feature.contains("foreach") {
        return Err(format!("{name}: foreach cannot be used inside itself"));
    }
    let of = |item: &String| {
        let text = feature.replace(variable.as_str(), item);
        let parsed = FeatureName::parse(&text).map_err(|error| format!("{name}: {error}"))?;
        let feature = set_up(setup, &parsed)?;
        match feature.tensor_type().is_scalar() {
            true => Ok(feature),
            false => Err(format!("{name}: {parsed} must be a number, but it is {}", feature.tensor_type())),
        }
    };
    let features = items.iter().map(of).collect::<Result<_, String>>()?;
    Ok(Box::new(Foreach { features, over_terms: dimension == "terms", condition, operation: *operation }))
}

impl Feature for Foreach {
    fn demands(&self) -> Demands {
        self.features.iter().map(|feature| feature.demands()).fold(Demands::default(), |all, one| Demands {
            counts: all.counts || one.counts,
            positions: all.positions || one.positions,
            statistics: all.statistics || one.statistics,
        })
    }

    fn bind<'q>(&'q self, request: &mut Request<'q>) -> Box<dyn Executor + 'q> {
        let count = if self.over_terms { request.plan.terms.len() } else { self.features.len() };
        let mut bound: Vec<_> =
            self.features.iter().take(count).map(|feature| feature.bind(request)).collect();
        let (mut of_item, mut counts) = (Values::Number(0.0), Vec::new());
        Box::new(Run(move |chunk: &Chunk<'_>, values: &mut Values| {
            let out = values.numbers(chunk.len(), 0.0);
            counts.clear();
            counts.resize(chunk.len(), 0u32);
            for executor in &mut bound {
                executor.run(chunk, &mut of_item);
                for (document, (out, count)) in out.iter_mut().zip(&mut counts).enumerate() {
                    let number = match &of_item {
                        Values::Number(number) => *number,
                        Values::Numbers(numbers) => numbers[document],
                        // Only features that are numbers were set up.
                        Values::Tensor(_) | Values::Tensors(_) | Values::Rows(_) => continue,
                    };
                    if self.condition.holds(number) {
                        *out = self.operation.with(*out, number, *count == 0);
                        *count += 1;
                    }
                }
            }
            if let Operation::Average = self.operation {
                out.iter_mut().zip(&counts).for_each(|(sum, count)| *sum /= f64::from((*count).max(1)));
            }
        }))
    }
}

impl Condition {
    fn holds(self, number: f64) -> bool {
        match self {
            Condition::Always => true,
            Condition::Above(bound) => number > bound,
            Condition::Below(bound) => number < bound,
        }
    }
}

impl Operation {
    /// What is so far, with one more number.
    fn with(self, so_far: f64, number: f64, is_first: bool) -> f64 {
        match self {
            Operation::Count => so_far + 1.0,
            _ if is_first => number,
            Operation::Sum | Operation::Average => so_far + number,
            Operation::Product => so_far * number,
            Operation::Max => so_far.max(number),
            Operation::Min => so_far.min(number),
        }
    }
}
