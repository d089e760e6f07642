/// Name of the machine without its domain; `localhost` for a machine without a name.
pub fn host_name() -> String {
    let machine = rustix::system::uname();
    let name = machine.nodename().to_string_lossy();
    name.split('.').next().filter(|first| !first.is_empty()).unwrap_or("localhost").to_owned()
}
