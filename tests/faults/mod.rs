//! Real server processes under faults, with clients that record what they see: killed, cut
//! off from power, stopped and continued, on disks that fail, are slow or full, with
//! folders that are damaged.

mod audit;
mod damaged;
mod failing_disk;
mod follow;
mod full_disk;
mod kills;
mod load;
mod pauses;
mod power_cuts;
mod record;
mod rounds;
