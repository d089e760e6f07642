//! Models as XGBoost saves them (`save_model("model.ubj")`): trees as lists of the parts of their nodes.

use millrace_expression::{DecisionForest, ForestBuilder, MissingDirection, SplitRule, Subtree};

use super::DEPTH;
use super::ubjson::UbjsonValue;
use crate::Error;

/// Reads a saved model. The features are called as the lines of `names` say, if there are any, else as the
/// model says, else `xgboost_input_0` and so on.
pub(super) fn read(bytes: &[u8], names: Option<&[u8]>) -> Result<DecisionForest, Error> {
    let root = UbjsonValue::read(bytes)?;
    // A bare list of trees has the default of a model without an objective.
    let (trees, base, own_names) = match root.list() {
        Some(trees) => (trees, 0.5, Vec::new()),
        None => {
            let learner = member(&root, "learner")?;
            let booster = member(learner, "gradient_booster")?;
            let model = member(booster, "model")?;
            let trees = member(model, "trees")?;
            let trees = trees.list().ok_or_else(|| Error::setup("its 'trees' are not a list"))?;
            let groups = model.get("tree_info").and_then(UbjsonValue::numbers).unwrap_or_default();
            if groups.iter().any(|group| *group != 0.0) {
                return Err(Error::setup("models of several classes have no one score"));
            }
            if parameter(learner, "num_target")?.is_some_and(|targets| targets > 1.0) {
                return Err(Error::setup("models of several targets have no one score: train one for each"));
            }
            let own_names = learner.get("feature_names").and_then(UbjsonValue::list).unwrap_or_default();
            (trees, base_score(learner)?, own_names.iter().filter_map(UbjsonValue::text).collect())
        }
    };
    let names = std::str::from_utf8(names.unwrap_or_default()).map_err(|_| {
        Error::setup("the file with the names of its features is not UTF-8: write it in this encoding")
    })?;
    let lines = names.trim_start_matches('\u{feff}').lines().map(str::trim);
    let given: Vec<&str> = lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let names = if given.is_empty() { own_names } else { given };
    let trees: Vec<SavedTree<'_>> = trees.iter().map(SavedTree::read).collect::<Result<_, _>>()?;
    let mut used: Vec<usize> = trees.iter().flat_map(SavedTree::features).collect();
    used.sort_unstable();
    used.dedup();
    let inputs: Vec<String> = used.iter().map(|at| feature(*at, &names)).collect::<Result<_, _>>()?;
    let mut builder = ForestBuilder::new(inputs.iter().map(String::as_str))
        .map_err(|error| Error::setup(error.to_string()))?;
    for tree in &trees {
        let root = tree.subtree(0, 0, &mut tree.left.len(), &used, &mut builder)?;
        builder.tree(root);
    }
    let base = builder.leaf(base);
    builder.tree(base);
    Ok(builder.finish())
}

fn member<'v>(of: &'v UbjsonValue, name: &str) -> Result<&'v UbjsonValue, Error> {
    of.get(name).ok_or_else(|| {
        Error::setup(format!("it has no '{name}': save a model of trees (booster gbtree) by save_model"))
    })
}

/// A parameter of a model: a number, which XGBoost writes as a text, or as a list of one for each score.
fn parameter(learner: &UbjsonValue, name: &str) -> Result<Option<f64>, Error> {
    let Some(value) = learner.get("learner_model_param").and_then(|given| given.get(name)) else {
        return Ok(None);
    };
    let number = match value {
        UbjsonValue::Number(number) => Some(*number),
        UbjsonValue::Text(text) => text.trim_matches(['[', ']']).parse::<f64>().ok(),
        UbjsonValue::Numbers(numbers) if numbers.len() == 1 => numbers.first().copied(),
        _ => None,
    };
    number.filter(|number| number.is_finite()).map(Some).ok_or_else(|| {
        let found = value.text().map_or_else(|| "not a number".to_owned(), |text| format!("{text:?}"));
        Error::setup(format!("its {name} is {found}: a model has one score, a number"))
    })
}

/// The score that the trees are added to. That of a logistic objective is a probability.
fn base_score(learner: &UbjsonValue) -> Result<f64, Error> {
    let objective = learner.get("objective").and_then(|objective| objective.get("name")?.text());
    let logistic = objective.is_some_and(|name| name.ends_with(":logistic"));
    let base = match parameter(learner, "base_score")? {
        Some(base) => base,
        None if logistic => 0.5,
        None => 0.0,
    };
    match logistic {
        true if base > 0.0 && base < 1.0 => Ok(f64::ln(base) - f64::ln(1.0 - base)),
        true => Ok(0.0),
        false => Ok(base),
    }
}

fn feature(at: usize, names: &[&str]) -> Result<String, Error> {
    match names.get(at) {
        Some(name) => Ok((*name).to_owned()),
        None if names.is_empty() => Ok(format!("xgboost_input_{at}")),
        None => Err(Error::setup(format!("a split is by feature {at}, but {} have a name", names.len()))),
    }
}

/// A tree: the parts of each node, by its number.
struct SavedTree<'m> {
    /// The nodes where the condition holds; below 0 for leaves.
    left: &'m [f64],
    right: &'m [f64],
    /// Bounds of splits, and values of leaves.
    conditions: &'m [f64],
    features: &'m [f64],
    default_left: &'m [f64],
}

impl<'m> SavedTree<'m> {
    fn read(tree: &'m UbjsonValue) -> Result<Self, Error> {
        let list = |name: &str| {
            let numbers = tree.get(name).and_then(UbjsonValue::numbers);
            numbers.ok_or_else(|| Error::setup(format!("a tree has no list of numbers '{name}'")))
        };
        let kinds = tree.get("split_type").and_then(UbjsonValue::numbers).unwrap_or_default();
        if kinds.iter().any(|kind| *kind != 0.0) {
            return Err(Error::setup(
                "splits by category are not supported: train without enable_categorical",
            ));
        }
        let read = SavedTree {
            left: list("left_children")?,
            right: list("right_children")?,
            conditions: list("split_conditions")?,
            features: list("split_indices")?,
            default_left: list("default_left")?,
        };
        let nodes = read.left.len();
        let others = [read.right, read.conditions, read.features, read.default_left];
        match others.iter().all(|list| list.len() == nodes) {
            true => Ok(read),
            false => Err(Error::setup("the lists of a tree are not of one length")),
        }
    }

    /// The features of all splits.
    fn features(&self) -> impl Iterator<Item = usize> {
        self.left.iter().zip(self.features).filter(|(left, _)| **left >= 0.0).map(|(_, at)| *at as usize)
    }

    /// Adds the node with the number `at`, and all below it. No more than `left` nodes may be added.
    fn subtree(
        &self,
        at: usize,
        depth: usize,
        left: &mut usize,
        used: &[usize],
        builder: &mut ForestBuilder,
    ) -> Result<Subtree, Error> {
        if depth > DEPTH {
            return Err(Error::setup(format!("a tree is deeper than {DEPTH}")));
        }
        let (Some(next), Some(rest)) = (self.left.get(at), left.checked_sub(1)) else {
            return Err(Error::setup(
                "the nodes of a tree do not form one: a node is reached twice, or is missing",
            ));
        };
        *left = rest;
        let condition = self.conditions[at];
        if *next < 0.0 {
            return Ok(builder.leaf(condition));
        }
        let feature = self.features[at] as usize;
        let input = used
            .binary_search(&feature)
            .map_err(|_| Error::setup(format!("a split is by feature {feature}, which is not known")))?;
        let missing =
            if self.default_left[at] != 0.0 { MissingDirection::Holds } else { MissingDirection::Fails };
        let holds = self.subtree(*next as usize, depth + 1, left, used, builder)?;
        let fails = self.subtree(self.right[at] as usize, depth + 1, left, used, builder)?;
        // XGBoost rounds features to floats of 32 bits. A feature just below the bound may be rounded to it,
        // so that the bound is the next lower float, as in Vespa.
        let bound = f64::from((condition as f32).next_down());
        Ok(builder.split(input, SplitRule::Below(bound), missing, holds, fails)?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::forests::TreeModel;
    use crate::forests::tests::values_of;

    /// The value as universal binary JSON; lists of numbers have one type, except the empty one.
    fn encode(value: &Value, out: &mut Vec<u8>) {
        let text = |text: &str, out: &mut Vec<u8>| {
            out.push(b'L');
            out.extend((text.len() as i64).to_be_bytes());
            out.extend(text.as_bytes());
        };
        match value {
            Value::String(written) => {
                out.push(b'S');
                text(written, out);
            }
            Value::Array(list) if !list.is_empty() && list.iter().all(Value::is_number) => {
                out.extend(b"[$d#i");
                out.push(list.len() as u8);
                let numbers = list.iter().filter_map(Value::as_f64);
                numbers.for_each(|number| out.extend((number as f32).to_be_bytes()));
            }
            Value::Array(list) => {
                out.extend(b"[");
                list.iter().for_each(|element| encode(element, out));
                out.extend(b"N]");
            }
            Value::Object(members) => {
                out.extend(b"{#U");
                out.push(members.len() as u8);
                for (name, member) in members {
                    text(name, out);
                    encode(member, out);
                }
            }
            Value::Bool(true) => out.push(b'T'),
            Value::Bool(false) => out.push(b'F'),
            Value::Null => out.push(b'Z'),
            Value::Number(number) => {
                out.push(b'D');
                out.extend(number.as_f64().expect("a number is a float").to_be_bytes());
            }
        }
    }

    fn saved_model(change: impl FnOnce(&mut Value)) -> Vec<u8> {
        let mut model = serde_json::json!({ "version": [3, 1, 2], "learner": {
            "attributes": {}, "feature_names": ["a", "b"], "objective": { "name": "binary:logistic" },
            "learner_model_param": { "base_score": "[5E-1]", "num_class": "0" },
            "gradient_booster": { "name": "gbtree", "model": { "tree_info": [0, 0], "trees": [
                { "left_children": [1, -1, 3, -1, -1], "right_children": [2, -1, 4, -1, -1],
                  "split_conditions": [0.5, 1, 1.5, 10, 20], "split_indices": [0, 0, 1, 0, 0],
                  "default_left": [false, false, true, false, false], "split_type": [0, 0, 0, 0, 0] },
                { "left_children": [-1], "right_children": [-1], "split_conditions": [0.25],
                  "split_indices": [0], "default_left": [0] }] } } } });
        change(&mut model);
        let mut bytes = Vec::new();
        encode(&model, &mut bytes);
        bytes
    }

    #[test]
    fn saved_models_add_their_base_score() {
        let pairs =
            [(0.0, 9.0), (0.5, 1.0), (0.5, 1.5), (f64::NAN, 2.0), (1.0, f64::NAN), (0.499_999_99, 1.0)];
        let found = |bytes: &[u8], names: Option<&str>| {
            values_of(read(bytes, names.map(str::as_bytes)).expect("the model is right"), &pairs)
        };
        let sums = [2.5, 20.5, 40.5, 40.5, 20.5, 20.5];
        assert_eq!(found(&saved_model(|_| ()), None), sums);
        assert_eq!(found(&saved_model(|_| ()), Some("# none\n\n")), sums);
        for names in ["b\n a \n", "\u{feff}b\r\na", "\u{feff}# the names\nb\na\n"] {
            assert_eq!(found(&saved_model(|_| ()), Some(names))[..2], [20.5, 20.5], "{names:?}");
        }
        let error = read(&saved_model(|_| ()), Some(b"\xff\na\n")).map(|_| ()).expect_err("it is not text");
        assert!(error.to_string().contains("is not UTF-8"), "{error}");
        let regression = saved_model(|model| {
            model["learner"]["objective"] = serde_json::json!({ "name": "reg:squarederror" })
        });
        assert_eq!(found(&regression, None), sums.map(|sum| sum + 1.0));
        for base in ["0.25", "\"0.25\"", "\"[2.5E-1]\"", "[0.25]"] {
            let regression = saved_model(|model| {
                model["learner"]["objective"] = serde_json::json!({ "name": "count:poisson" });
                let parameters = format!("{{\"base_score\":{base},\"num_target\":\"1\"}}");
                model["learner"]["learner_model_param"] =
                    serde_json::from_str(&parameters).expect("it is JSON");
            });
            assert_eq!(found(&regression, None), sums.map(|sum| sum + 0.5), "{base}");
        }
        let unnamed = saved_model(|model| model["learner"]["feature_names"] = serde_json::json!([]));
        let model = TreeModel::read_saved(&unnamed, None).expect("the model is right");
        assert_eq!(model.features(), ["xgboost_input_0", "xgboost_input_1"]);
        assert_eq!(model.evaluate(|_| 0.0), 1.25);
    }

    #[test]
    fn what_is_no_saved_model_is_refused() {
        let refused = |bytes: &[u8], part: &str| {
            let error = read(bytes, None).map(|_| ()).expect_err("it is not a model");
            assert!(error.to_string().contains(part), "{error}");
        };
        let whole = saved_model(|_| ());
        (0..whole.len()).for_each(|length| assert!(read(&whole[..length], None).is_err(), "{length} bytes"));
        refused(&[whole.as_slice(), b"Z"].concat(), "1 bytes stand after the model");
        refused(b"[{]", "unknown marker ']'");
        refused(&[b'['; 1000], "nested deeper than 64");
        refused(b"[$Z#i\x02zz", "unknown marker 'Z'");
        refused(b"[$d#L\x7f\xff\xff\xff\xff\xff\xff\xff", "it ends within a value");
        let tree = |model: &mut Value, list: &str, value: Value| {
            model["learner"]["gradient_booster"]["model"]["trees"][0][list] = value;
        };
        let json = |text: &str| serde_json::from_str::<Value>(text).expect("it is JSON");
        for (list, value, part) in [
            (
                "right_children",
                "[2,-1,0,-1,-1]",
                "the nodes of a tree do not form one: a node is reached twice, or is missing",
            ),
            (
                "right_children",
                "[2,-1,2,-1,-1]",
                "the nodes of a tree do not form one: a node is reached twice, or is missing",
            ),
            (
                "right_children",
                "[9,-1,4,-1,-1]",
                "the nodes of a tree do not form one: a node is reached twice, or is missing",
            ),
            ("right_children", "[2]", "not of one length"),
            ("default_left", "null", "no list of numbers 'default_left'"),
            ("split_type", "[0,0,1,0,0]", "splits by category"),
            ("split_indices", "[0,0,7,0,0]", "a split is by feature 7, but 2 have a name"),
        ] {
            refused(&saved_model(|model| tree(model, list, json(value))), part);
        }
        let learner = |name: &str, value: &str| {
            saved_model(|model| model["learner"][name] = serde_json::from_str(value).expect("it is JSON"))
        };
        for (parameters, part) in [
            (r#"{"base_score":"[1,2]"}"#, "its base_score is \"[1,2]\""),
            (r#"{"base_score":"nan"}"#, "its base_score is \"nan\""),
            (r#"{"base_score":"-inf"}"#, "its base_score is \"-inf\""),
            (r#"{"base_score":[1,2]}"#, "its base_score is not a number"),
            (r#"{"base_score":null}"#, "its base_score is not a number"),
            (r#"{"base_score":"0","num_target":"2"}"#, "models of several targets"),
            (r#"{"base_score":"0","num_target":2}"#, "models of several targets"),
            (r#"{"base_score":"0","num_target":"x"}"#, "its num_target is \"x\""),
        ] {
            refused(&learner("learner_model_param", parameters), part);
        }
        refused(&learner("gradient_booster", r#"{"name":"gblinear"}"#), "it has no 'model'");
        refused(
            &learner("gradient_booster", r#"{"model":{"tree_info":[0,1],"trees":[]}}"#),
            "several classes",
        );
    }
}
