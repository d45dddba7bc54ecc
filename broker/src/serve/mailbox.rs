//! What tasks and threads tell a loop: letters in order, and a bell. Decides nothing, and never blocks but for the moment of a push.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// A mailbox with one reader and any number of writers. Whoever writes is bounded by what it may have under way.
#[derive(Debug)]
pub(crate) struct Mailbox<T>(Arc<Inner<T>>);

#[derive(Debug)]
struct Inner<T> {
    letters: Mutex<Vec<T>>,
    bell: Notify,
}

impl<T> Clone for Mailbox<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Mailbox<T> {
    /// An empty one.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Inner { letters: Mutex::new(Vec::new()), bell: Notify::new() }))
    }

    /// Puts a letter in. The bell rings at the first one only: the reader takes all.
    pub(crate) fn push(&self, letter: impl Into<T>) {
        let letter = letter.into();
        let was_empty = {
            let mut letters = self.0.letters.lock().unwrap_or_else(PoisonError::into_inner);
            letters.push(letter);
            letters.len() == 1
        };
        if was_empty {
            self.0.bell.notify_one();
        }
    }

    /// Takes everything, in order. `letters` should be empty; its memory is used again.
    pub(crate) fn take(&self, letters: &mut Vec<T>) {
        std::mem::swap(letters, &mut self.0.letters.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits until there is a letter; may return without one.
    pub(crate) async fn rings(&self) {
        self.0.bell.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_letter_that_came_before_the_wait_is_not_missed() {
        let mailbox: Mailbox<i32> = Mailbox::new();
        let mut letters = Vec::new();
        let other = mailbox.clone();
        std::thread::spawn(move || (0..3).for_each(|letter| other.push(letter))).join().unwrap();
        mailbox.rings().await;
        mailbox.take(&mut letters);
        assert_eq!(letters, [0, 1, 2]);
        letters.clear();
        mailbox.push(4);
        mailbox.rings().await;
        mailbox.take(&mut letters);
        assert_eq!(letters, [4]);
    }
}
