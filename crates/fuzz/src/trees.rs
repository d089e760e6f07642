//! Models of decision trees: dumps of XGBoost and LightGBM, and models as XGBoost saves them.

use std::hint::black_box;

use millrace_ranking::TreeModel;

use crate::{tells, text};

/// A model as JSON and in its binary form, evaluated with a few values.
pub(crate) fn trees(input: &[u8]) {
    match TreeModel::read(text(input)) {
        Some(Ok(model)) => evaluated(&model),
        Some(Err(error)) => tells(&error),
        None => {}
    }
    for names in [None, Some("a\nattribute(b)\n# none\nc".as_bytes())] {
        match TreeModel::read_saved(input, names) {
            Ok(model) => evaluated(&model),
            Err(error) => tells(&error),
        }
    }
}

fn evaluated(model: &TreeModel) {
    for value in [0.0, 1.5, f64::NAN] {
        black_box(model.evaluate(|_| value));
    }
}
