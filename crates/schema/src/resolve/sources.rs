//! Parts of schemas in other files of the package.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{SchemaFaults, invalid};
use crate::parse::Name;
use crate::parse::syntax::TextOrFile;
use crate::suggest::did_you_mean;
use crate::{Error, ModelFile, Schema, SourcePosition, SourcedText, unpack};

/// Reader of schema parts in files of the package.
pub(super) struct PackageSources<'a> {
    files: &'a BTreeMap<String, Vec<u8>>,
    pub(super) models: Arc<BTreeMap<String, Vec<u8>>>,
}

impl<'a> PackageSources<'a> {
    pub(super) fn new(files: &'a BTreeMap<String, Vec<u8>>) -> Self {
        // Others are large, and read by their own readers. Names of features that are not text are refused
        // with their model.
        let of_trees = |path: &str, bytes: &[u8]| {
            let is_of_saved = [".ubj", "-features.txt"].iter().any(|end| path.ends_with(end));
            is_of_saved || std::str::from_utf8(bytes).is_ok()
        };
        let models = files.iter().filter_map(|(path, bytes)| {
            let name = path.strip_prefix("models/").filter(|name| of_trees(name, bytes))?;
            Some((name.to_owned(), bytes.clone()))
        });
        PackageSources { models: Arc::new(models.collect()), files }
    }

    /// An expression; for `file:` it is read from `name.expression` beside the schema.
    pub(super) fn expression(&self, text: &TextOrFile) -> Result<SourcedText<String>, Error> {
        let file = match text {
            TextOrFile::Text(text) => return Ok(text.clone()),
            TextOrFile::File(file) => file,
        };
        if file.value.contains('/') {
            return invalid(
                file,
                "the path of an expression has no directories: put the file beside the schema".to_owned(),
            );
        }
        let name = file.value.strip_suffix(".expression").unwrap_or(&file.value);
        let own_directory = file.position.file.rsplit_once('/').map_or("", |(directory, _)| directory);
        let candidates = [own_directory, "schemas", "searchdefinitions"]
            .map(|directory| format!("{directory}/{name}.expression"));
        for path in &candidates {
            if let Some(bytes) = self.files.get(path) {
                return Ok(SourcedText {
                    value: self.text(file, path, bytes)?.trim().to_owned(),
                    position: SourcePosition::start_of(path),
                });
            }
        }
        invalid(file, format!("no file {} in the package", candidates[0]))
    }

    /// Text of a constant: a literal, or the JSON of its file.
    pub(super) fn constant(&self, text: &TextOrFile) -> Result<SourcedText<String>, Error> {
        let file = match text {
            TextOrFile::Text(text) => return Ok(text.clone()),
            TextOrFile::File(file) => file,
        };
        match self.files.get(&file.value) {
            Some(bytes) => {
                let unpacked = match file.value.ends_with(".lz4").then(|| unpack::lz4(bytes)).transpose() {
                    Ok(unpacked) => unpacked,
                    Err(reason) => return invalid(file, format!("{}: {reason}", file.value)),
                };
                let bytes = unpacked.as_deref().unwrap_or(bytes);
                Ok(SourcedText {
                    value: self.text(file, &file.value, bytes)?.to_owned(),
                    position: SourcePosition::start_of(&file.value),
                })
            }
            None => {
                let hint = did_you_mean(&file.value, self.files.keys().map(String::as_str));
                invalid(
                    file,
                    format!(
                        "no file {} in the package{hint}: the path is from the package's root",
                        file.value
                    ),
                )
            }
        }
    }

    /// Checks that the files of ONNX models exist.
    pub(super) fn check_models(&self, schema: &Schema, faults: &mut SchemaFaults<'_>) {
        let of_profiles = schema.rank_profiles.values().flat_map(|profile| &profile.onnx_models);
        for (name, model) in schema.onnx_models.iter().chain(of_profiles) {
            let SourcedText { value: ModelFile::Path(path), position } = &model.file else { continue };
            if !self.files.contains_key(path) {
                let hint = did_you_mean(path, self.files.keys().map(String::as_str));
                let reason =
                    format!("no file {path} in the package{hint}: the path is from the package's root");
                faults.ok_or_report::<()>(name, Err(Error::Invalid { position: position.clone(), reason }));
            }
        }
    }

    fn text<'b>(&self, user: &Name, path: &str, bytes: &'b [u8]) -> Result<&'b str, Error> {
        std::str::from_utf8(bytes).or_else(|_| invalid(user, format!("{path} is not UTF-8 text")))
    }
}
