//! Selections of documents from outside: text in, outcomes out.

mod groups_of_others;
mod implied_groups;
mod paths;
mod selections;
