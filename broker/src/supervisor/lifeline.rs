//! The pipe between a supervisor and a broker: the broker's standard input. Its end is an order to stop, also when the supervisor was
//! killed; a line before the end says that the others go on, so that leaderships are worth handing over.

use std::io::{self, BufRead};

/// What the supervisor writes before it ends the pipe of one broker, while the others go on.
pub const HAND_OVER: &str = "hand-over";

/// How a broker has to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopOrder {
    /// Hand leaderships over first: the others go on.
    HandOver,
    /// All stop, or the supervisor is gone.
    All,
}

/// Blocks until the pipe ends. For a thread of its own in the broker.
pub fn wait(mut pipe: impl BufRead) -> StopOrder {
    let mut order = StopOrder::All;
    let mut line = String::new();
    loop {
        line.clear();
        match io::Read::take(&mut pipe, 1024).read_line(&mut line) {
            Ok(0) => return order,
            Ok(_) if line.trim() == HAND_OVER => order = StopOrder::HandOver,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return order,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_the_order_and_a_line_says_whether_others_go_on() {
        assert_eq!(wait(&b""[..]), StopOrder::All);
        assert_eq!(wait(&b"hand-over\n"[..]), StopOrder::HandOver);
        assert_eq!(wait(&b"something else\n"[..]), StopOrder::All);
        assert_eq!(wait(&b"hand-ov"[..]), StopOrder::All, "a supervisor that was killed while it wrote");
    }
}
