//! Messages between nodes from outside: real connections, and the bytes of each protocol.

mod peers;
mod protocol;
