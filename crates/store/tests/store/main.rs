//! The store from outside: what is written is read, whatever is sealed, merged, split, dropped, killed or
//! damaged in between.

mod common;
mod counts;
mod crash;
mod damage;
mod division;
mod faults;
mod forgotten;
mod isolation;
mod late;
mod model;
mod power;
mod replica;
mod schemas;
mod space;
mod threads;
mod transfer;
mod writes;
