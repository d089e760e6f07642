//! Validated rule bases with their includes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use millrace_linguistics::{FieldAnalyzer, TextLanguage};
use millrace_schema::{PackageFindings, SourcePosition, did_you_mean};

use crate::Error;
use crate::matching::DEPTH_MAX;
use crate::parser;
use crate::syntax::{ProducedTerm, ProductionRule, RuleCondition, RuleFile, RuleStatement};

/// Folder of the rule bases in a package.
const FOLDER: &str = "rules/";
const SUFFIX: &str = ".sr";
/// Maximum number of rules of a rule base, including included ones.
const RULES_MAX: usize = 100_000;
/// Maximum depth of includes.
const INCLUDED_MAX: usize = 50;

/// The rule bases of an application package.
#[derive(Debug, Default)]
pub struct RuleBases {
    bases: BTreeMap<String, Arc<RuleBase>>,
    default: Option<String>,
}

/// A set of rules that are applied together.
#[derive(Debug)]
pub struct RuleBase {
    pub(crate) name: String,
    pub(crate) rules: Vec<Arc<ProductionRule>>,
    pub(crate) conditions: BTreeMap<String, Arc<RuleCondition>>,
    stemming: bool,
    language: TextLanguage,
    /// Terms of conditions, with the words used to compare them.
    words: HashMap<String, Vec<String>>,
}

impl RuleBases {
    /// Reads the files `rules/NAME.sr` of a package; `files` has all files of the package, by path. Other
    /// files in `rules/` cause a warning. An invalid rule base is omitted, and so are those that include it.
    pub fn read(files: &BTreeMap<String, Vec<u8>>, findings: &mut PackageFindings) -> Self {
        let mut parsed = BTreeMap::new();
        let mut invalid = BTreeSet::new();
        for (path, bytes) in files {
            let Some(file) = path.strip_prefix(FOLDER) else { continue };
            let Some(name) = file.strip_suffix(SUFFIX).filter(|name| !name.contains('/')) else {
                findings.warnings.push(format!("{path}: is passed over: rule bases are files rules/NAME.sr"));
                continue;
            };
            let text = std::str::from_utf8(bytes).map_err(|error| not_utf8(path, bytes, error.valid_up_to()));
            match findings.ok_or_report(text.and_then(|text| parser::parse(path, name, text))) {
                Some(file) => drop(parsed.insert(name.to_owned(), file)),
                None => drop(invalid.insert(name.to_owned())),
            }
        }
        remove_dependents(&mut parsed, &mut invalid);
        let default = findings.ok_or_report(default_of(&parsed)).flatten();
        let settings: Vec<(String, bool, Option<String>)> =
            parsed.values().map(|file| (file.name.clone(), file.stemming, file.language.clone())).collect();
        let includes: BTreeMap<String, Vec<String>> = parsed
            .iter()
            .map(|(name, file)| (name.clone(), file.includes().map(str::to_owned).collect()))
            .collect();
        let mut resolving =
            BaseResolution { files: parsed, resolved: BTreeMap::new(), including: Vec::new() };
        let (mut bases, mut wrong) = (BTreeMap::new(), BTreeMap::new());
        for (name, stemming, language) in settings {
            resolving.including.clear();
            let resolved = resolving.base(&name, &mut findings.warnings);
            let Some(resolved) = findings.ok_or_report(resolved) else { continue };
            let ResolvedBase { conditions, rules } = &*resolved;
            let conditions =
                conditions.iter().map(|(name, (condition, _))| (name.clone(), Arc::clone(condition)));
            let mut base = RuleBase {
                name: name.clone(),
                rules: rules.clone(),
                conditions: conditions.collect(),
                stemming,
                language: TextLanguage::from_tag(language.as_deref().unwrap_or_default()),
                words: HashMap::new(),
            };
            match base.check() {
                Ok(()) => {
                    base.take_words();
                    bases.insert(name, Arc::new(base));
                }
                Err(error) => drop(wrong.insert(name, error)),
            }
        }
        // An error of an included rule base is reported only for that one.
        let reported =
            wrong.iter().filter(|(name, _)| !includes[*name].iter().any(|base| wrong.contains_key(base)));
        reported.for_each(|(_, error)| findings.report(error.clone()));
        RuleBases { bases, default }
    }

    /// The rule base with this name.
    pub fn get(&self, name: &str) -> Option<&Arc<RuleBase>> {
        self.bases.get(name.strip_suffix(SUFFIX).unwrap_or(name))
    }

    /// The rule base marked `@default`.
    pub fn default_base(&self) -> Option<&Arc<RuleBase>> {
        self.bases.get(self.default.as_deref()?)
    }

    /// Names of all rule bases, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.bases.keys().map(String::as_str)
    }
}

fn not_utf8(path: &str, bytes: &[u8], valid: usize) -> Error {
    let line = bytes[..valid].iter().filter(|byte| **byte == b'\n').count() + 1;
    let position = SourcePosition { file: path.to_owned(), line, column: 1 };
    Error::Syntax { position, reason: "the line is not UTF-8: save the file in UTF-8".to_owned() }
}

/// Removes rule bases that include an invalid one, transitively.
fn remove_dependents(files: &mut BTreeMap<String, RuleFile>, invalid: &mut BTreeSet<String>) {
    let lacks =
        |file: &&RuleFile, invalid: &BTreeSet<String>| file.includes().any(|base| invalid.contains(base));
    while let Some(name) = files.values().find(|file| lacks(file, invalid)).map(|file| file.name.clone()) {
        files.remove(&name);
        invalid.insert(name);
    }
}

fn default_of(files: &BTreeMap<String, RuleFile>) -> Result<Option<String>, Error> {
    let mut defaults = files.values().filter_map(|file| Some((&file.name, file.default.as_ref()?)));
    let (first, second) = (defaults.next(), defaults.next());
    if let (Some((_, first)), Some((_, second))) = (first, second) {
        let reason = format!("{first} is the default already: leave @default in one rule base");
        return Err(Error::Invalid { position: second.clone(), reason });
    }
    Ok(first.map(|(name, _)| name.clone()))
}

/// A rule base with its includes.
struct ResolvedBase {
    conditions: BTreeMap<String, (Arc<RuleCondition>, SourcePosition)>,
    rules: Vec<Arc<ProductionRule>>,
}

struct BaseResolution {
    /// Rule bases that are not resolved yet.
    files: BTreeMap<String, RuleFile>,
    /// Results so far. An invalid rule base makes all that include it invalid, for the same reason.
    resolved: BTreeMap<String, Result<Arc<ResolvedBase>, Error>>,
    /// Names of the rule bases that are being resolved, outermost first.
    including: Vec<String>,
}

impl BaseResolution {
    /// Resolves the rule base with this name, which must exist.
    fn base(&mut self, name: &str, warnings: &mut Vec<String>) -> Result<Arc<ResolvedBase>, Error> {
        if let Some(resolved) = self.resolved.get(name) {
            return resolved.clone();
        }
        self.including.push(name.to_owned());
        let resolved = self.resolve(name, warnings).map(Arc::new);
        self.including.pop();
        self.resolved.insert(name.to_owned(), resolved.clone());
        resolved
    }

    fn resolve(&mut self, name: &str, warnings: &mut Vec<String>) -> Result<ResolvedBase, Error> {
        let statements = self.files.get_mut(name).map(|file| std::mem::take(&mut file.statements));
        let mut included: BTreeMap<String, (Arc<RuleCondition>, SourcePosition)> = BTreeMap::new();
        let mut own: BTreeMap<String, (RuleCondition, SourcePosition)> = BTreeMap::new();
        let mut rules = Vec::new();
        for statement in statements.unwrap_or_default() {
            match statement {
                RuleStatement::Include { base, position } => {
                    let more = self.included_base(&base, &position, warnings)?;
                    included.extend(more.conditions.clone());
                    rules.extend(more.rules.iter().cloned());
                    if rules.len() > RULES_MAX {
                        let reason = format!(
                            "with what it includes, the rule base has more than {RULES_MAX} rules: include less"
                        );
                        return Err(Error::Invalid { position, reason });
                    }
                }
                RuleStatement::Condition { name, position, condition } => {
                    if let Some((_, first)) = own.get(&name) {
                        warnings.push(format!(
                            "{position}: condition [{name}] is defined at {first} already; the last definition holds"
                        ));
                    }
                    own.insert(name, (condition, position));
                }
                RuleStatement::Rule(rule) => rules.push(rule),
            }
        }
        let mut conditions = included.clone();
        for (name, (condition, position)) in own {
            let condition = condition.with_super(&mut |at| match included.get(&name) {
                Some((condition, _)) => Ok(Arc::clone(condition)),
                None => Err(Error::Invalid {
                    position: at,
                    reason: format!(
                        "no included rule base has a condition [{name}] that @super could mean: include one with @include(name)"
                    ),
                }),
            })?;
            conditions.insert(name, (Arc::new(condition), position));
        }
        self.including.pop();
        Ok(ResolvedBase { conditions, rules })
    }

    fn included_base(
        &mut self,
        name: &str,
        position: &SourcePosition,
        warnings: &mut Vec<String>,
    ) -> Result<Arc<ResolvedBase>, Error> {
        let invalid = |reason: String| Err(Error::Invalid { position: position.clone(), reason });
        if self.including.len() > INCLUDED_MAX {
            return invalid(format!(
                "rule bases include each other more than {INCLUDED_MAX} deep: put some of them together"
            ));
        }
        if self.including.iter().any(|including| including == name) {
            let way: Vec<&str> = self.including.iter().map(String::as_str).chain([name]).collect();
            return invalid(format!(
                "rule bases include each other in a circle, {}: take one @include out",
                way.join(" → ")
            ));
        }
        if !self.files.contains_key(name) {
            let hint = did_you_mean(name, self.files.keys().map(String::as_str));
            return invalid(format!("no rule base '{name}'{hint}: add rules/{name}.sr"));
        }
        self.base(name, warnings)
    }
}

impl RuleBase {
    /// Name of the rule base.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Analyzer that converts a query's terms to words for comparison with conditions.
    pub(crate) fn analyzer(&self) -> FieldAnalyzer {
        let analyzer = FieldAnalyzer::text(self.language);
        if self.stemming { analyzer } else { analyzer.without_stemming() }
    }

    /// Words used to compare a term of a condition.
    pub(crate) fn words_of(&self, term: &str) -> &[String] {
        self.words.get(term).map(Vec::as_slice).unwrap_or_default()
    }

    /// Checks that all references exist, and that there are no cycles.
    fn check(&self) -> Result<(), Error> {
        let mut depths = BTreeMap::new();
        for condition in self.conditions.values() {
            self.depth(condition, 0, &mut Vec::new(), &mut depths)?;
        }
        for rule in &self.rules {
            self.depth(&rule.condition, 0, &mut Vec::new(), &mut depths)?;
            let mut names = Vec::new();
            self.names_in(&rule.condition, &mut names, &mut Vec::new());
            for production in &rule.productions {
                let ProducedTerm::Reference { name, position, .. } = &production.term else { continue };
                if !names.iter().any(|known| known == name) {
                    let hint = did_you_mean(name, names.iter().copied());
                    let reason = format!(
                        "the condition of the rule has no [{name}]{hint}: a production refers to what stands in brackets there, or before a '/'"
                    );
                    return Err(Error::Invalid { position: position.clone(), reason });
                }
            }
        }
        Ok(())
    }

    /// Nesting depth of a condition, including conditions that it refers to; `around` is the depth outside
    /// it.
    fn depth<'c>(
        &'c self,
        condition: &'c RuleCondition,
        around: usize,
        way: &mut Vec<&'c str>,
        depths: &mut BTreeMap<&'c str, usize>,
    ) -> Result<usize, Error> {
        if let RuleCondition::Reference { name, position } = condition {
            let invalid = |reason: String| Err(Error::Invalid { position: position.clone(), reason });
            if way.contains(&name.as_str()) {
                let circle: Vec<&str> =
                    way.iter().copied().skip_while(|one| *one != name).chain([name.as_str()]).collect();
                return invalid(format!(
                    "conditions refer to themselves, {}: take one of the references out",
                    circle.join(" → ")
                ));
            }
            let too_deep = || {
                invalid(format!(
                    "more than {DEPTH_MAX} conditions are within each other, with those that they refer to: put some of them together"
                ))
            };
            if let Some(depth) = depths.get(name.as_str()) {
                return if around + depth > DEPTH_MAX { too_deep() } else { Ok(*depth) };
            }
            let Some(named) = self.conditions.get(name) else {
                let hint = did_you_mean(name, self.conditions.keys().map(String::as_str));
                return invalid(format!(
                    "no condition [{name}]{hint}: define it with '[{name}] :- …;' here or in an included rule base"
                ));
            };
            if around > DEPTH_MAX {
                return too_deep();
            }
            way.push(name);
            let depth = self.depth(named, around + 1, way, depths)? + 1;
            way.pop();
            depths.insert(name, depth);
            return if around + depth > DEPTH_MAX { too_deep() } else { Ok(depth) };
        }
        let mut deepest = 0;
        for inner in condition.inner() {
            deepest = deepest.max(self.depth(inner, around + 1, way, depths)? + 1);
        }
        Ok(deepest)
    }

    /// Collects the names under which productions can refer to the matched terms.
    fn names_in<'c>(
        &'c self,
        condition: &'c RuleCondition,
        names: &mut Vec<&'c str>,
        seen: &mut Vec<&'c str>,
    ) {
        match condition {
            RuleCondition::Named { name, .. } => names.push(name),
            RuleCondition::Reference { name, .. } if !seen.contains(&name.as_str()) => {
                seen.push(name);
                if let Some(named) = self.conditions.get(name) {
                    self.names_in(named, names, seen);
                }
            }
            _ => {}
        }
        condition.inner().into_iter().for_each(|inner| self.names_in(inner, names, seen));
    }

    fn take_words(&mut self) {
        let analyzer = self.analyzer();
        let mut waiting: Vec<&RuleCondition> =
            self.conditions.values().map(|condition| &**condition).collect();
        waiting.extend(self.rules.iter().map(|rule| &rule.condition));
        let mut words = HashMap::new();
        while let Some(condition) = waiting.pop() {
            let terms: &[String] = match condition {
                RuleCondition::Term(term) => std::slice::from_ref(term),
                RuleCondition::Phrase(terms) => terms,
                _ => &[],
            };
            for term in terms {
                words.entry(term.clone()).or_insert_with(|| words_of(&analyzer, term));
            }
            waiting.extend(condition.inner());
        }
        self.words = words;
    }
}

/// Converts a term to the words used to compare it.
pub(crate) fn words_of(analyzer: &FieldAnalyzer, text: &str) -> Vec<String> {
    let mut words = Vec::new();
    analyzer.tokens(text, |token| words.push(token.text.to_owned()));
    words
}
