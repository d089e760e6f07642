//! Gradient boosting models as dumped by their libraries: JSON to decision trees.

mod dumped;
mod saved;
mod ubjson;

use std::sync::Arc;

use millrace_expression::{
    DecisionForest, EvaluationScratch, ExpressionFault, ExpressionProgram, ExpressionScope, FeatureKind,
    FeatureName, ForestBuilder, FunctionBody, InputBatch, MissingDirection, ParsedExpression, SplitRule,
    Subtree, string_hash,
};
use millrace_tensor::TensorType;
use serde_json::Value;

use self::dumped::DumpFault;
use crate::Error;

/// Maximum depth of a tree.
const DEPTH: usize = 100;

/// The end of the names of files with saved models of XGBoost.
const SAVED: &str = ".ubj";

/// A decision-tree model that is evaluated on its own.
pub struct TreeModel {
    program: ExpressionProgram,
    /// Features that are split by category name.
    named: Vec<String>,
}

impl TreeModel {
    /// Reads a dump of XGBoost or LightGBM; `None` if the JSON resembles neither.
    ///
    /// # Errors
    /// The JSON resembles a model but is not valid, or takes too much memory.
    pub fn read(text: &str) -> Option<Result<Self, Error>> {
        let json = match dumped::read(text.as_bytes()) {
            Ok(json) => json,
            Err(DumpFault::TooLarge) if text.contains("\"leaf\"") || text.contains("\"tree_info\"") => {
                return Some(Err(DumpFault::TooLarge.into()));
            }
            Err(_) => return None,
        };
        let is_tree = |tree: &Value| tree.get("leaf").is_some() || tree.get("split").is_some();
        let (forest, named) = match &json {
            Value::Array(trees) if trees.first().is_some_and(is_tree) => (xgboost(&json), Vec::new()),
            Value::Object(fields) if fields.contains_key("tree_info") => {
                (lightgbm(&json), named_categories(&json))
            }
            _ => return None,
        };
        Some(forest.and_then(|forest| TreeModel::of(forest, named)))
    }

    /// Reads a model that XGBoost has saved as `.ubj`. `names` are the lines of the file with the names of
    /// its features, if there is one.
    ///
    /// # Errors
    /// The bytes are not such a model, or the names are not text.
    pub fn read_saved(bytes: &[u8], names: Option<&[u8]>) -> Result<Self, Error> {
        saved::read(bytes, names).and_then(|forest| TreeModel::of(forest, Vec::new()))
    }

    fn of(forest: DecisionForest, named: Vec<String>) -> Result<Self, Error> {
        let expression = ParsedExpression::parse("model").map_err(|error| Error::setup(error.to_string()))?;
        let program = ExpressionProgram::compile(&expression, &SingleForestScope(Arc::new(forest)));
        Ok(TreeModel { program: program.map_err(|error| Error::setup(error.reason().to_owned()))?, named })
    }

    /// Path of the file with the names of the features of a model saved as `.ubj`.
    pub fn names_path(model: &str) -> Option<String> {
        model.strip_suffix(SAVED).map(|name| format!("{name}-features.txt"))
    }

    /// Features used by the model's splits.
    pub fn features(&self) -> Vec<String> {
        self.program.inputs().iter().map(|(name, _)| name.to_string()).collect()
    }

    /// True if the values of a feature are category names.
    pub fn is_named(&self, feature: &str) -> bool {
        self.named.iter().any(|name| name == feature)
    }

    /// Number that represents a category name among feature values.
    pub fn category(name: &str) -> f64 {
        string_hash(name)
    }

    /// Evaluates the model. NaN stands for a missing feature.
    pub fn evaluate(&self, features: impl Fn(&str) -> f64) -> f64 {
        let inputs: Vec<InputBatch<'_>> = self
            .program
            .inputs()
            .iter()
            .map(|(name, _)| InputBatch::number(features(&name.to_string())))
            .collect();
        self.program.evaluate(&mut EvaluationScratch::default(), 1, &inputs).number(0)
    }
}

/// Evaluation environment of a single model; every name is a number.
struct SingleForestScope(Arc<DecisionForest>);

impl ExpressionScope for SingleForestScope {
    fn feature(&self, name: &FeatureName) -> Result<FeatureKind, ExpressionFault> {
        match (name.name.as_str(), name.parameters.is_empty()) {
            ("model", true) => Ok(FeatureKind::Forest(Arc::clone(&self.0))),
            _ => Ok(FeatureKind::Input(TensorType::scalar())),
        }
    }

    fn function(&self, _: &str) -> Option<FunctionBody<'_>> {
        None
    }
}

/// Reads the model of `xgboost(file)` or `lightgbm(file)` from the files in `models/`.
pub(crate) fn read(
    kind: &str,
    file: &str,
    bytes: &[u8],
    names: Option<&[u8]>,
) -> Result<DecisionForest, Error> {
    if kind == "xgboost" && file.ends_with(SAVED) {
        return saved::read(bytes, names);
    }
    // Files of LightGBM's save_model begin so.
    if bytes.starts_with(b"tree\n") {
        return Err(Error::setup(
            "it is a model as save_model writes it: write the JSON of dump_model() to the file",
        ));
    }
    let json = dumped::read(bytes)?;
    match kind {
        "xgboost" => xgboost(&json),
        _ => lightgbm(&json),
    }
}

/// Reads a list of trees. Splits name their features and refer to children by number.
fn xgboost(json: &Value) -> Result<DecisionForest, Error> {
    let trees = json.as_array().ok_or_else(|| {
        Error::setup(
            "expected a list of trees, as dump_model(…, dump_format='json') writes it; save_model writes another form, \
             which is read from files that end in .ubj",
        )
    })?;
    let mut names = Vec::new();
    for tree in trees {
        names_in(tree, &mut names, 0)?;
    }
    names.sort_unstable();
    names.dedup();
    let mut builder =
        ForestBuilder::new(names.iter().copied()).map_err(|error| Error::setup(error.to_string()))?;
    for tree in trees {
        let root = xgboost_node(tree, &names, &mut builder)?;
        builder.tree(root);
    }
    Ok(builder.finish())
}

fn names_in<'j>(node: &'j Value, names: &mut Vec<&'j str>, depth: usize) -> Result<(), Error> {
    if depth > DEPTH {
        return Err(Error::setup(format!("a tree is deeper than {DEPTH}")));
    }
    names.extend(node.get("split").and_then(Value::as_str));
    for child in node.get("children").and_then(Value::as_array).into_iter().flatten() {
        names_in(child, names, depth + 1)?;
    }
    Ok(())
}

/// Reads a node. The recursion is as deep as [`names_in`] has gone.
fn xgboost_node(node: &Value, names: &[&str], builder: &mut ForestBuilder) -> Result<Subtree, Error> {
    if let Some(leaf) = node.get("leaf") {
        return Ok(builder.leaf(number(leaf, "leaf")?));
    }
    let name = node
        .get("split")
        .and_then(Value::as_str)
        .ok_or_else(|| Error::setup("a node has neither 'leaf' nor 'split'"))?;
    let input =
        names.binary_search(&name).map_err(|_| Error::setup(format!("feature {name} is not known")))?;
    let children = node
        .get("children")
        .and_then(Value::as_array)
        .ok_or_else(|| Error::setup("a split has no 'children'"))?;
    let child = |to: &str| -> Result<&Value, Error> {
        let id = node.get(to).ok_or_else(|| Error::setup(format!("a split by {name} has no '{to}'")))?;
        let found = children.iter().find(|child| child.get("nodeid") == Some(id));
        found.ok_or_else(|| Error::setup(format!("'{to}' of a split by {name} is none of its children")))
    };
    let (yes, no) = (child("yes")?, child("no")?);
    // A split without a condition is on an indicator: the presence of the feature.
    let (split, missing) = match node.get("split_condition") {
        Some(condition) => {
            let goes_yes = node.get("missing") == node.get("yes");
            let missing = if goes_yes { MissingDirection::Holds } else { MissingDirection::Fails };
            // XGBoost has floats of 32 bits, whose digits are written.
            let bound = number(condition, "split_condition")? as f32;
            (SplitRule::Below(f64::from(bound)), missing)
        }
        None => (SplitRule::OneOf(vec![1.0]), MissingDirection::Fails),
    };
    let (yes, no) = (xgboost_node(yes, names, builder)?, xgboost_node(no, names, builder)?);
    Ok(builder.split(input, split, missing, yes, no)?)
}

fn lightgbm(json: &Value) -> Result<DecisionForest, Error> {
    let list = |name: &str| json.get(name).and_then(Value::as_array);
    let names: Vec<&str> = list("feature_names")
        .ok_or_else(|| Error::setup("it has no 'feature_names'"))?
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let trees: Vec<&Value> = list("tree_info")
        .ok_or_else(|| Error::setup("it has no 'tree_info'"))?
        .iter()
        .map(|tree| tree.get("tree_structure").ok_or_else(|| Error::setup("a tree has no 'tree_structure'")))
        .collect::<Result<_, _>>()?;
    if json.get("num_tree_per_iteration").and_then(Value::as_u64).unwrap_or(1) != 1 {
        return Err(Error::setup("models of several classes have no one score"));
    }
    let categories = CategoryNumbers::new(json, &trees, names.len())?;
    let mut builder = ForestBuilder::new(names).map_err(|error| Error::setup(error.to_string()))?;
    for tree in trees {
        let root = lightgbm_node(tree, &categories, &mut builder, 0)?;
        builder.tree(root);
    }
    if json.get("average_output").and_then(Value::as_bool) == Some(true) {
        builder.average();
    }
    let objective = json.get("objective").and_then(Value::as_str).unwrap_or("regression");
    let mut words = objective.split_whitespace();
    match words.next().unwrap_or_default() {
        "binary" | "cross_entropy" => {
            let steepness = words.find_map(|word| word.strip_prefix("sigmoid:")?.parse().ok());
            builder.sigmoid(steepness.unwrap_or(1.0));
        }
        "regression" | "regression_l1" | "lambdarank" | "rank_xendcg" => {}
        other => {
            return Err(Error::setup(format!(
                "its objective is '{other}'; there are binary, regression and lambdarank"
            )));
        }
    }
    Ok(builder.finish())
}

fn lightgbm_node(
    node: &Value,
    categories: &CategoryNumbers,
    builder: &mut ForestBuilder,
    depth: usize,
) -> Result<Subtree, Error> {
    if depth > DEPTH {
        return Err(Error::setup(format!("a tree is deeper than {DEPTH}")));
    }
    if let Some(leaf) = node.get("leaf_value") {
        return Ok(builder.leaf(number(leaf, "leaf_value")?));
    }
    let input = feature_of(node)
        .ok_or_else(|| Error::setup("a node has neither 'leaf_value' nor 'split_feature'"))?;
    let child = |name: &str| node.get(name).ok_or_else(|| Error::setup(format!("a split has no '{name}'")));
    let left = lightgbm_node(child("left_child")?, categories, builder, depth + 1)?;
    let right = lightgbm_node(child("right_child")?, categories, builder, depth + 1)?;
    let threshold = child("threshold")?;
    if is_by_category(node) {
        let split = SplitRule::OneOf(categories.values(input, threshold)?);
        return Ok(builder.split(input, split, MissingDirection::Fails, left, right)?);
    }
    let default_left = node.get("default_left").and_then(Value::as_bool).unwrap_or(false);
    let missing = match node.get("missing_type").and_then(Value::as_str) {
        Some("NaN") if default_left => MissingDirection::Holds,
        Some("NaN") => MissingDirection::Fails,
        _ => MissingDirection::IsZero,
    };
    Ok(builder.split(input, SplitRule::AtMost(number(threshold, "threshold")?), missing, left, right)?)
}

/// Features whose categories have names.
fn named_categories(json: &Value) -> Vec<String> {
    let list = |name: &str| json.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let trees: Vec<&Value> = list("tree_info").iter().filter_map(|tree| tree.get("tree_structure")).collect();
    let lists = list("pandas_categorical");
    let of_categories = by_category(json, &trees, list("feature_names").len(), lists.len());
    let features =
        list("feature_names").iter().zip(of_categories).filter(|(_, by)| *by).map(|(name, _)| name);
    let is_named = |list: &Value| list.as_array().is_some_and(|list| list.iter().any(Value::is_string));
    let named = features.zip(lists).filter(|(_, list)| is_named(list));
    named.filter_map(|(name, _)| name.as_str()).map(str::to_owned).collect()
}

/// Features split by category, as given by the file, or else as used in its trees.
fn by_category(json: &Value, trees: &[&Value], features: usize, lists: usize) -> Vec<bool> {
    let mut by_category = vec![false; features];
    match categorical_of(json) {
        Some(named) if named.len() == lists => {
            named.into_iter().filter(|at| *at < features).for_each(|at| by_category[at] = true);
        }
        _ => trees.iter().for_each(|tree| mark(tree, &mut by_category, 0)),
    }
    by_category
}

fn is_by_category(node: &Value) -> bool {
    node.get("decision_type").and_then(Value::as_str) == Some("==")
}

fn feature_of(node: &Value) -> Option<usize> {
    node.get("split_feature")?.as_u64()?.try_into().ok()
}

/// Values of category numbers, by feature.
struct CategoryNumbers(Vec<Option<Vec<f64>>>);

impl CategoryNumbers {
    /// Assigns the lists of `pandas_categorical`: one per feature that some split tests by category, in
    /// feature order.
    fn new(json: &Value, trees: &[&Value], features: usize) -> Result<Self, Error> {
        let lists = json.get("pandas_categorical").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let by_category = by_category(json, trees, features, lists.len());
        if !lists.is_empty() && by_category.iter().filter(|by| **by).count() != lists.len() {
            return Err(Error::setup(format!(
                "'pandas_categorical' has {} lists, but {} features are split by category",
                lists.len(),
                by_category.iter().filter(|by| **by).count()
            )));
        }
        let mut lists = lists.iter();
        let mut of_features = Vec::with_capacity(features);
        for by_category in by_category {
            let list = if by_category { lists.next().and_then(Value::as_array) } else { None };
            of_features.push(list.map(|list| list.iter().map(category).collect()));
        }
        Ok(CategoryNumbers(of_features))
    }

    /// The values named by `2||3`.
    fn values(&self, feature: usize, threshold: &Value) -> Result<Vec<f64>, Error> {
        let text = match threshold {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let wrong = || Error::setup(format!("a split by category has the threshold {text:?}"));
        text.split("||")
            .map(|number| {
                let at: usize = number.trim().parse().map_err(|_| wrong())?;
                match self.0.get(feature) {
                    Some(Some(list)) => list.get(at).copied().ok_or_else(wrong),
                    _ => Ok(at as f64),
                }
            })
            .collect()
    }
}

/// Features whose values `feature_infos` lists.
fn categorical_of(json: &Value) -> Option<Vec<usize>> {
    let infos = json.get("feature_infos")?.as_object()?;
    let names = json.get("feature_names")?.as_array()?;
    let listed = |name: &Value| {
        let values = infos.get(name.as_str()?)?.get("values")?.as_array()?;
        (!values.is_empty()).then_some(())
    };
    Some(names.iter().enumerate().filter_map(|(at, name)| listed(name).map(|()| at)).collect())
}

fn mark(node: &Value, by_category: &mut [bool], depth: usize) {
    if depth > DEPTH {
        return;
    }
    if let Some(by) = feature_of(node).filter(|_| is_by_category(node)).and_then(|at| by_category.get_mut(at))
    {
        *by = true;
    }
    ["left_child", "right_child"]
        .iter()
        .filter_map(|side| node.get(side))
        .for_each(|child| mark(child, by_category, depth + 1));
}

/// A category as a feature value; strings by their hash.
fn category(value: &Value) -> f64 {
    match value {
        Value::String(text) => string_hash(text),
        Value::Bool(truth) => f64::from(u8::from(*truth)),
        other => other.as_f64().unwrap_or(f64::NAN),
    }
}

fn number(value: &Value, what: &str) -> Result<f64, Error> {
    value.as_f64().ok_or_else(|| Error::setup(format!("'{what}' must be a number, found {value}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model with the features `a` and `b`.
    struct TestForest(std::sync::Arc<DecisionForest>);

    impl ExpressionScope for TestForest {
        fn feature(&self, name: &FeatureName) -> Result<FeatureKind, ExpressionFault> {
            match name.name.as_str() {
                "model" => Ok(FeatureKind::Forest(std::sync::Arc::clone(&self.0))),
                "a" | "b" => Ok(FeatureKind::Input(TensorType::scalar())),
                _ => Err(ExpressionFault::new(format!("no feature {name}"))),
            }
        }

        fn function(&self, _: &str) -> Option<FunctionBody<'_>> {
            None
        }
    }

    fn values(kind: &str, json: &str, pairs: &[(f64, f64)]) -> Vec<f64> {
        values_of(read(kind, "m.json", json.as_bytes(), None).expect("the model is right"), pairs)
    }

    /// Twice the model's value, for each pair of features.
    pub(super) fn values_of(model: DecisionForest, pairs: &[(f64, f64)]) -> Vec<f64> {
        let model = TestForest(std::sync::Arc::new(model));
        let expression = ParsedExpression::parse("2 * model").expect("an expression");
        let program = ExpressionProgram::compile(&expression, &model).expect("its features are there");
        let of = |name: &FeatureName| -> Vec<f64> {
            pairs.iter().map(|pair| if name.name == "a" { pair.0 } else { pair.1 }).collect()
        };
        let inputs: Vec<Vec<f64>> = program.inputs().iter().map(|(name, _)| of(name)).collect();
        let operands: Vec<InputBatch<'_>> =
            inputs.iter().map(|numbers| InputBatch::numbers(numbers)).collect();
        let mut out = vec![0.0; pairs.len()];
        program.evaluate(&mut EvaluationScratch::default(), pairs.len(), &operands).write(&mut out);
        out
    }

    #[test]
    fn a_model_is_known_by_its_json_and_evaluated_by_itself() {
        let json = r#"[{"nodeid":0,"split":"f(a).b","split_condition":0.5,"yes":1,"no":2,"missing":2,"children":[
            {"nodeid":1,"leaf":1},{"nodeid":2,"leaf":7}]}]"#;
        let model = TreeModel::read(json).expect("it looks like one").expect("it is one");
        assert_eq!(model.features(), ["f(a).b"]);
        assert_eq!([0.0, 1.0, f64::NAN].map(|number| model.evaluate(|_| number)), [1.0, 7.0, 7.0]);
        assert!(TreeModel::read(r#"{"model":{"vocab":{}}}"#).is_none());
        assert!(TreeModel::read(r#"{"tree_info":[]}"#).is_some_and(|model| model.is_err()));
    }

    #[test]
    fn xgboost_adds_a_leaf_of_each_tree() {
        let json = r#"[
            {"nodeid":0,"split":"a","split_condition":0.5,"yes":1,"no":2,"missing":2,"children":[
                {"nodeid":1,"leaf":1},
                {"nodeid":2,"split":"b","split_condition":1.5,"yes":3,"no":4,"missing":3,"children":[
                    {"nodeid":3,"leaf":10},{"nodeid":4,"leaf":20}]}]},
            {"nodeid":0,"leaf":0.25}]"#;
        let found =
            values("xgboost", json, &[(0.0, 9.0), (0.5, 1.0), (0.5, 1.5), (f64::NAN, 2.0), (1.0, f64::NAN)]);
        assert_eq!(found, [2.5, 20.5, 40.5, 40.5, 20.5]);
    }

    #[test]
    fn lightgbm_knows_categories_and_objectives() {
        let json = r#"{"feature_names":["a","b"],"objective":"binary sigmoid:2","pandas_categorical":[["x","y","z"]],
            "tree_info":[{"tree_structure":{"split_feature":1,"threshold":"0||2","decision_type":"==","default_left":false,
                "missing_type":"NaN","left_child":{"leaf_value":0.0},
                "right_child":{"split_feature":0,"threshold":1.0,"decision_type":"<=","default_left":true,"missing_type":"NaN",
                    "left_child":{"leaf_value":1.0},"right_child":{"leaf_value":-1.0}}}}]}"#;
        let [x, y, z] = ["x", "y", "z"].map(string_hash);
        let found = values("lightgbm", json, &[(5.0, x), (5.0, z), (1.0, y), (1.5, y), (f64::NAN, f64::NAN)]);
        let sigmoid = |sum: f64| 2.0 / (1.0 + (-2.0 * sum).exp());
        let expected = [1.0, 1.0, sigmoid(1.0), sigmoid(-1.0), sigmoid(1.0)];
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}");
    }

    #[test]
    fn what_is_no_model_is_refused() {
        #[track_caller]
        fn check(kind: &str, json: &str, part: &str) {
            let error =
                read(kind, "m.json", json.as_bytes(), None).map(|_| ()).expect_err("it is not a model");
            assert!(error.to_string().contains(part), "{json}: {error}");
        }
        check("xgboost", "{", "not JSON");
        check("xgboost", r#"{"learner":{}}"#, "a list of trees");
        check("xgboost", r#"[{"nodeid":0}]"#, "neither 'leaf' nor 'split'");
        check(
            "xgboost",
            r#"[{"nodeid":0,"split":"a","split_condition":1,"yes":1,"no":2,"children":[{"nodeid":1,"leaf":1}]}]"#,
            "none of its children",
        );
        check("lightgbm", "{}", "no 'feature_names'");
        check("lightgbm", "tree\nversion=v4\n", "write the JSON of dump_model()");
        check(
            "lightgbm",
            r#"{"feature_names":["a"],"tree_info":[{"tree_structure":{"leaf_value":1}}],"objective":"multiclass"}"#,
            "its objective is 'multiclass'",
        );
        check(
            "lightgbm",
            r#"{"feature_names":["a"],"tree_info":[{"tree_structure":{"split_feature":3,"threshold":1,"left_child":{"leaf_value":1},"right_child":{"leaf_value":1}}}]}"#,
            "feature 3, but there are 1",
        );
    }
}
