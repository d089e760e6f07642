//! Schemas of the tests of Vespa's own configuration model deploy, or are refused for a reason; runs if the
//! variable `VESPA_SOURCE` names a checkout of Vespa's source.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use millrace_schema::Application;

/// Folders of packages, and of single schemas.
const PACKAGES: &str = "config-model/src/test/derived";
const SINGLE: &str = "config-model/src/test/examples";

const REFERENCES: &str = "references to other documents";
const WRONG: &str = "wrong there, too, as the test is about";
const FILES: &str = "its test makes further files, or has them elsewhere";
const UNKNOWN_SUMMARY: &str = "shows a field that exists only in Vespa's own index";

/// Packages and schemas that are refused, with the reason.
const REFUSED: &[(&str, &str)] = &[
    ("badparse.sd", WRONG),
    ("badstruct.sd", WRONG),
    ("child.sd", FILES),
    ("documents.sd", "several documents in one file"),
    ("fieldoftypedocument.sd", "a field whose type is a document"),
    ("flickr", UNKNOWN_SUMMARY),
    ("globalphase_onnx_inside", FILES),
    ("globalphase_token_functions", FILES),
    ("imported_fields_inherited_reference", REFERENCES),
    ("imported_position_field", REFERENCES),
    ("imported_position_field_summary", REFERENCES),
    ("imported_struct_fields", REFERENCES),
    ("importedfields", REFERENCES),
    ("importing.sd", WRONG),
    ("incorrectrankingexpressionfileref.sd", WRONG),
    ("inheritfromnull", WRONG),
    ("invalid_sd_junk_at_end.sd", WRONG),
    ("invalid_sd_missing_document.sd", WRONG),
    ("invalid_sd_no_closing_bracket.sd", WRONG),
    ("invalidimplicitsummarysource.sd", WRONG),
    ("invalidselfreferringsummary.sd", WRONG),
    ("invalidsummarysource.sd", WRONG),
    ("multiplesummaries", UNKNOWN_SUMMARY),
    ("neuralnet", FILES),
    ("neuralnet_noqueryprofile", FILES),
    ("nuwa", FILES),
    ("position_inherited.sd", FILES),
    ("rankprofilemodularity2", WRONG),
    ("reference_fields", REFERENCES),
    ("reference_from_several", REFERENCES),
    ("schemainheritance", REFERENCES),
    ("stemmingresolver.sd", "a kind of stemming that is not there any more"),
    ("structinheritance", WRONG),
    ("vector_constant", FILES),
];

#[test]
fn schemas_of_vespas_tests_deploy_or_have_a_reason() {
    let Some(root) = std::env::var_os("VESPA_SOURCE").map(PathBuf::from) else {
        eprintln!("skipped: VESPA_SOURCE names no checkout of Vespa's source");
        return;
    };
    let (mut deployed, mut refused) = (0, Vec::new());
    let mut check = |name: String, files: BTreeMap<String, Vec<u8>>| match Application::from_files(files) {
        Ok(_) => deployed += 1,
        Err(error) => refused.push(format!("{name}: {error}")),
    };
    for folder in entries(&root.join(PACKAGES)) {
        check(folder.display().to_string(), package(&files_of(&folder)));
    }
    for file in entries(&root.join(SINGLE)).into_iter().filter(|path| is_schema(path)) {
        check(file.display().to_string(), package(&[("x.sd".to_owned(), file.clone())]));
    }
    println!("{deployed} deploy, {} refused:\n{}", refused.len(), refused.join("\n"));
    let is_known = |refusal: &String| {
        let name = refusal.split(':').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
        REFUSED.iter().any(|(known, _)| *known == name)
    };
    refused.retain(|refusal| !is_known(refusal));
    assert!(deployed > 0 && refused.is_empty(), "refused:\n{}", refused.join("\n"));
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    all.sort();
    all
}

/// Files of a folder and of those in it, with their paths inside.
fn files_of(folder: &Path) -> Vec<(String, PathBuf)> {
    let mut files = Vec::new();
    for path in entries(folder) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_file() {
            files.push((name, path));
        } else {
            files
                .extend(files_of(&path).into_iter().map(|(inside, path)| (format!("{name}/{inside}"), path)));
        }
    }
    files
}

fn is_schema(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "sd")
}

/// A package with these files, and a services.xml with all schemas.
fn package(paths: &[(String, PathBuf)]) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut documents = String::new();
    for (name, path) in paths {
        let bytes = fs::read(path).unwrap();
        if is_schema(path) {
            let text = String::from_utf8_lossy(&bytes);
            let plain = text.lines().map(|line| line.split('#').next().unwrap_or_default());
            let mut words = plain
                .flat_map(str::split_whitespace)
                .skip_while(|word| !matches!(*word, "schema" | "search" | "document"));
            let schema = words.nth(1).unwrap_or("none").trim_end_matches(['{', ',']).to_owned();
            documents.push_str(&format!("<document type='{schema}' mode='streaming'/>"));
            files.insert(format!("schemas/{schema}.sd"), bytes);
        } else {
            // Rank profiles and expressions lie beside the schemas, other files where they are named.
            files.insert(format!("schemas/{name}"), bytes.clone());
            files.insert(name.clone(), bytes);
        }
    }
    let services = format!(
        "<services><container id='c'><search/></container>\
         <content id='x'><documents>{documents}</documents></content></services>"
    );
    files.insert("services.xml".to_owned(), services.into_bytes());
    files
}
