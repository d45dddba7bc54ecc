//! What the driver has handed over and not heard of yet, by token: slots that are used again, so that a turn allocates nothing.

use std::sync::Arc;

use super::inner::Inner;
use super::queue::Write;
use crate::units::Offset;

/// Something that is under way for a log.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) log: Arc<Inner>,
    pub(crate) kind: FlightKind,
}

#[derive(Debug)]
pub(crate) enum FlightKind {
    Write(Write),
    Sync { covers: Offset },
}

/// See the module's documentation. A token is the number of a slot; it is given again when its flight has ended.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    slots: Vec<Option<Flight>>,
    free: Vec<usize>,
}

impl Flights {
    /// Notes a flight; gives its token.
    pub(crate) fn begin(&mut self, log: &Arc<Inner>, kind: FlightKind) -> u64 {
        let flight = Some(Flight { log: Arc::clone(log), kind });
        let slot = self.free.pop().unwrap_or(self.slots.len());
        match self.slots.get_mut(slot) {
            Some(place) => *place = flight,
            None => self.slots.push(flight),
        }
        slot as u64
    }

    /// The flight with this token, which has ended.
    pub(crate) fn end(&mut self, token: u64) -> Option<Flight> {
        let slot = usize::try_from(token).ok()?;
        let flight = self.slots.get_mut(slot)?.take()?;
        self.free.push(slot);
        Some(flight)
    }

    /// All of them, of which nothing will be heard any more.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = Flight> + use<> {
        std::mem::take(self).slots.into_iter().flatten()
    }
}
