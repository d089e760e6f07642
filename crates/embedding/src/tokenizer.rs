//! Conversion of text to token ids.

use std::path::Path;

use millrace_model::TokenizedText;
use millrace_schema::{ColbertTokens, EmbedderKind};
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::BertNormalizer;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::utils::truncation::TruncationParams;

use crate::Error;

/// Number of characters per token that are passed to the tokenizer. A word gives at least one token, so the
/// rest of the text, including white space, could only give tokens past the limit.
const CHARACTERS_PER_TOKEN: usize = 64;

/// Maximum number of tokens of a text without a model: more than token tensors are made for.
const PLAIN_TOKENS: usize = 1 << 16;

/// Characters that ColBERT omits from documents.
const PUNCTUATION: &str = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

/// A tokenizer with a length limit.
pub(crate) struct BoundedTokenizer {
    inner: tokenizers::Tokenizer,
    max: usize,
}

impl BoundedTokenizer {
    /// Reads `tokenizer.json`, or for BERT its vocabulary.
    pub fn load(path: &Path, kind: &EmbedderKind, max: usize) -> Result<Self, Error> {
        let fail = |reason: String| Error::TokenizerFile { path: path.to_owned(), reason };
        let mut inner = match kind {
            EmbedderKind::Bert { .. } => word_piece(path).map_err(|error| fail(error.to_string()))?,
            _ => tokenizers::Tokenizer::from_file(path).map_err(|error| fail(error.to_string()))?,
        };
        let own = inner.get_truncation().map_or(max, |own| own.max_length);
        let max = max.min(own);
        inner.with_padding(None);
        let truncation = TruncationParams { max_length: max, ..TruncationParams::default() };
        inner.with_truncation(Some(truncation)).map_err(|error| fail(error.to_string()))?;
        Ok(BoundedTokenizer { inner, max })
    }

    /// Reads `tokenizer.json` for output of the token ids.
    pub fn plain(path: &Path) -> Result<Self, Error> {
        let fail = |reason: String| Error::TokenizerFile { path: path.to_owned(), reason };
        let mut inner = tokenizers::Tokenizer::from_file(path).map_err(|error| fail(error.to_string()))?;
        inner.with_padding(None);
        inner.with_truncation(None).map_err(|error| fail(error.to_string()))?;
        Ok(BoundedTokenizer { inner, max: PLAIN_TOKENS })
    }

    fn cut<'t>(&self, text: &'t str) -> &'t str {
        let characters_max = self.max.saturating_mul(CHARACTERS_PER_TOKEN);
        match text.char_indices().nth(characters_max) {
            Some((end, _)) => &text[..end],
            None => text,
        }
    }

    fn encode(&self, text: &str, special: bool) -> Result<tokenizers::Encoding, Error> {
        self.inner.encode_fast(self.cut(text), special).map_err(|error| Error::Tokenizer(error.to_string()))
    }

    /// Tokens of a text, without special tokens.
    pub fn ids(&self, text: &str) -> Result<Vec<i64>, Error> {
        Ok(self.encode(text, false)?.get_ids().iter().map(|&id| i64::from(id)).collect())
    }

    /// Tokens of a text with the special tokens that the tokenizer adds.
    pub fn text(&self, text: &str) -> Result<TokenizedText, Error> {
        let encoding = self.encode(text, true)?;
        let wide = |values: &[u32]| values.iter().map(|&value| i64::from(value)).collect();
        Ok(TokenizedText {
            ids: wide(encoding.get_ids()),
            types: wide(encoding.get_type_ids()),
            unattended: 0,
        })
    }

    /// Tokens of a text between these two.
    pub fn between(&self, text: &str, start: i64, end: i64) -> Result<TokenizedText, Error> {
        let mut ids = vec![start];
        ids.extend(self.ids(text)?);
        ids.truncate(self.max.saturating_sub(1).max(1));
        ids.push(end);
        Ok(TokenizedText { ids, ..TokenizedText::default() })
    }

    /// A query in ColBERT's form: marked, and padded with mask tokens if the model was trained to use them.
    pub fn colbert_query(&self, text: &str, tokens: &ColbertTokens) -> Result<TokenizedText, Error> {
        let mut ids = self.ids(text)?;
        ids.truncate(tokens.query_max.saturating_sub(3));
        let mut ids = marked(tokens, tokens.query, ids);
        let missing = tokens.query_max.saturating_sub(ids.len());
        let unattended = if tokens.fills_query { missing } else { 0 };
        ids.resize(ids.len() + unattended, tokens.mask);
        Ok(TokenizedText { ids, unattended, ..TokenizedText::default() })
    }

    /// A document in ColBERT's form: marked, and without punctuation.
    pub fn colbert_document(&self, text: &str, tokens: &ColbertTokens) -> Result<TokenizedText, Error> {
        let punctuation = |id: &i64| {
            let token = u32::try_from(*id).ok().and_then(|id| self.inner.id_to_token(id));
            token.is_some_and(|token| PUNCTUATION.contains(token.as_str()))
        };
        let mut ids = self.ids(text)?;
        ids.retain(|id| !punctuation(id));
        ids.truncate(tokens.document_max.saturating_sub(3));
        Ok(TokenizedText { ids: marked(tokens, tokens.document, ids), ..TokenizedText::default() })
    }

    /// Text of a vocabulary token.
    pub fn token(&self, id: usize) -> Option<String> {
        u32::try_from(id).ok().and_then(|id| self.inner.id_to_token(id))
    }
}

fn marked(tokens: &ColbertTokens, mark: i64, ids: Vec<i64>) -> Vec<i64> {
    [tokens.start, mark].into_iter().chain(ids).chain([tokens.end]).collect()
}

/// BERT's tokenizer over a vocabulary with one token per line.
fn word_piece(path: &Path) -> tokenizers::Result<tokenizers::Tokenizer> {
    let model = WordPiece::from_file(&path.to_string_lossy()).unk_token("[UNK]".to_owned()).build()?;
    let mut tokenizer = tokenizers::Tokenizer::new(model);
    tokenizer.with_normalizer(Some(BertNormalizer::default()))?;
    tokenizer.with_pre_tokenizer(Some(BertPreTokenizer));
    Ok(tokenizer)
}
