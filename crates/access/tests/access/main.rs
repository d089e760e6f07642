//! Credentials from outside: requests in, callers or refusals out.

mod credentials;
mod declared;
