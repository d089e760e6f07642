//! Mail from outside: messages in, documents out, and the generated corpus.

mod corpus;
mod import;
