//! Copies of indexes from outside: beside a map, on failing disks, and on their way to other nodes.

mod beside;
mod copy;
mod transfer;
