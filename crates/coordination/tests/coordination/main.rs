//! Coordination, embedded and by a real etcd.

mod embedded;
mod etcd_process;
mod outages;
mod same;
