//! `highwater`: the reference broker, its supervisor and the operator's tools.

fn main() -> std::process::ExitCode {
    highwater_broker::cli::main()
}
