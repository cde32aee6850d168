//! The bundles of an import as they come from the hub, in the order asked for. Where there is much of them, several
//! answers are read side by side: one connection is seldom as fast as the line, and none works while git does.

use std::io::{self, ErrorKind, Read};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use parler_client::{BundleReader, BundleStream, Client};
use parler_protocol::limits::MAX_BUNDLES_PER_REQUEST;
use parler_protocol::{BundleId, RoomName};

use super::FetchError;
use super::ahead::{Ahead, Found, Spool};

/// From this many bytes on bundles are worth a request of their own.
const LEG_BYTES: u64 = 4 << 20; // 4 MiB
/// Answers of a hub elsewhere that are read at once, where nothing else is said.
const AT_ONCE: usize = 4;

/// A bundle as its author signed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) id: BundleId,
    pub(super) size: u64,
}

impl Wanted {
    /// Whether this is what the hub says it sends.
    pub(super) fn is(&self, sent: &BundleReader<'_, '_>) -> bool {
        sent.id == self.id && sent.size == self.size
    }
}

/// Bundles that are asked for in one request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Leg {
    pub(super) bundles: Vec<Wanted>,
    /// How large they are together.
    pub(super) bytes: u64,
}

impl Leg {
    /// Divides bundles into legs of this many bytes or more.
    fn divide(wanted: &[Wanted], least: u64) -> Vec<Self> {
        let mut legs: Vec<Self> = Vec::new();
        for bundle in wanted {
            let has_room = |leg: &&mut Self| leg.bytes < least && leg.bundles.len() < MAX_BUNDLES_PER_REQUEST;
            match legs.last_mut().filter(has_room) {
                Some(leg) => {
                    leg.bundles.push(*bundle);
                    leg.bytes = leg.bytes.saturating_add(bundle.size);
                }
                None => legs.push(Self {
                    bundles: vec![*bundle],
                    bytes: bundle.size,
                }),
            }
        }
        legs
    }
}

/// All downloads of an import. They end when it is dropped.
pub(super) struct Downloads<'a> {
    client: &'a Client,
    room: &'a RoomName,
    legs: Arc<[Leg]>,
    /// Where there is more than one leg.
    ahead: Option<Ahead>,
    /// The place of the next bundle: its leg, and its number in it.
    next: (usize, usize),
    source: Source<'a>,
    /// Bytes that came from where they were imported.
    arrived: u64,
}

/// Where the present leg comes from.
enum Source<'a> {
    /// It has not begun.
    None,
    /// As it comes.
    Hub(Box<BundleStream<'a>>),
    /// From the disk, where somebody else writes it.
    Disk {
        spool: Arc<Spool>,
        /// Where the present bundle begins in the leg, and how far it was read.
        begin: u64,
        read: u64,
    },
}

impl<'a> Downloads<'a> {
    /// Nothing is asked for yet, but for what can come ahead of its turn: as many answers at once as are said. That waits
    /// in nameless files in `directory`.
    pub(super) fn begin(
        client: &'a Client,
        room: &'a RoomName,
        wanted: &[Wanted],
        at_once: Option<NonZeroUsize>,
        directory: PathBuf,
    ) -> Self {
        // What comes over loopback comes as fast as it is written to a disk and read again.
        let own_choice = if client.address().is_loopback() { 1 } else { AT_ONCE };
        let at_once = at_once.map_or(own_choice, NonZeroUsize::get);
        let least = if at_once > 1 { LEG_BYTES } else { u64::MAX };
        let legs: Arc<[Leg]> = Leg::divide(wanted, least).into();
        let is_worth_it = at_once > 1 && legs.len() > 1;
        let ahead = is_worth_it.then(|| Ahead::begin(client, room, Arc::clone(&legs), at_once, directory));
        Self {
            client,
            room,
            legs,
            ahead,
            next: (0, 0),
            source: Source::None,
            arrived: 0,
        }
    }

    /// Bytes that have come so far, whether it was their turn or not.
    pub(super) fn arrived(&self) -> u64 {
        self.arrived + self.ahead.as_ref().map_or(0, Ahead::arrived)
    }

    /// The next bundle, to be read to its end. None behind the last.
    ///
    /// # Errors
    /// [`FetchError::NotSent`]; [`FetchError::Client`], also for a bundle whose turn has not come.
    pub(super) fn next(&mut self) -> Result<Option<Download<'_, 'a>>, FetchError> {
        if let Some(failure) = self.ahead.as_ref().and_then(Ahead::failure) {
            return Err(failure.into());
        }
        let (leg, number) = match self.next {
            (leg, number) if self.legs.get(leg).is_some_and(|leg| number == leg.bundles.len()) => (leg + 1, 0),
            next => next,
        };
        let Some(wanted) = self.legs.get(leg).and_then(|leg| leg.bundles.get(number)).copied() else {
            return Ok(None);
        };
        self.next = (leg, number + 1);
        if number == 0 {
            let spool = self.ahead.as_ref().and_then(|ahead| ahead.turn_of(leg));
            self.source = match spool {
                Some(spool) => Source::Disk {
                    spool,
                    begin: 0,
                    read: 0,
                },
                None => Source::Hub(self.ask(leg, number)?),
            };
        }
        let not_sent = || FetchError::NotSent {
            id: wanted.id,
            room: self.room.clone(),
        };
        let mut is_left_off = false;
        match &mut self.source {
            Source::Disk { spool, begin, read } => {
                if number > 0 {
                    *begin += self.legs[leg].bundles[number - 1].size;
                    *read = 0;
                }
                match spool.bundle(number)? {
                    Found::Here(_) => {}
                    Found::NotSent => return Err(not_sent()),
                    Found::LeftOff => is_left_off = true,
                }
            }
            Source::None | Source::Hub(_) => {}
        }
        if is_left_off {
            self.source = Source::Hub(self.ask(leg, number)?);
        }
        if let Source::Hub(stream) = &mut self.source {
            let sent = stream.next()?;
            if !sent.is_some_and(|sent| wanted.is(&sent)) {
                return Err(not_sent());
            }
        }
        Ok(Some(Download(self)))
    }

    /// Asks for the bundles of a leg from this one on.
    fn ask(&self, leg: usize, number: usize) -> Result<Box<BundleStream<'a>>, FetchError> {
        let ids: Vec<_> = self.legs[leg].bundles[number..]
            .iter()
            .map(|bundle| bundle.id)
            .collect();
        Ok(Box::new(self.client.bundles(self.room, &ids)?))
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Source::Disk { spool, begin, read } = &mut self.source {
            let (leg, number) = (self.next.0, self.next.1 - 1);
            let left = self.legs[leg].bundles[number].size - *read;
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
            if most == 0 {
                return Ok(0);
            }
            match spool.read_at(*begin + *read, &mut buffer[..most])? {
                Found::Here(count) => {
                    *read += count as u64;
                    return Ok(count);
                }
                Found::NotSent | Found::LeftOff => {
                    let read = *read;
                    self.take_over(leg, number, read)?;
                }
            }
        }
        match &mut self.source {
            Source::Hub(stream) => {
                let count = stream.read(buffer)?;
                self.arrived += count as u64;
                Ok(count)
            }
            _ => Ok(0),
        }
    }

    /// Goes on with a bundle that somebody else left off, behind its first bytes.
    fn take_over(&mut self, leg: usize, number: usize, done: u64) -> io::Result<()> {
        let mut stream = self.ask(leg, number).map_err(into_io)?;
        let wanted = self.legs[leg].bundles[number];
        let sent = stream.next().map_err(io::Error::other)?;
        if !sent.is_some_and(|sent| wanted.is(&sent)) {
            return Err(io::Error::new(ErrorKind::InvalidData, "the hub sent another bundle"));
        }
        io::copy(&mut (&mut stream).take(done), &mut io::sink())?;
        self.source = Source::Hub(stream);
        Ok(())
    }
}

fn into_io(error: FetchError) -> io::Error {
    match error {
        FetchError::Client(error) => io::Error::other(error),
        error => io::Error::other(error.to_string()),
    }
}

/// A bundle whose turn it is.
pub(super) struct Download<'d, 'a>(&'d mut Downloads<'a>);

impl Read for Download<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn legs(sizes: &[u64], least: u64) -> Vec<Vec<u64>> {
        let wanted = |(number, size): (usize, &u64)| Wanted {
            id: BundleId::of(&number.to_le_bytes()),
            size: *size,
        };
        let wanted: Vec<_> = sizes.iter().enumerate().map(wanted).collect();
        let legs = Leg::divide(&wanted, least);
        let in_order: Vec<_> = legs.iter().flat_map(|leg| leg.bundles.iter().copied()).collect();
        assert_eq!(in_order, wanted);
        let sizes = |leg: &Leg| leg.bundles.iter().map(|bundle| bundle.size).collect::<Vec<_>>();
        for leg in &legs {
            assert_eq!(leg.bytes, sizes(leg).into_iter().fold(0, u64::saturating_add));
        }
        legs.iter().map(sizes).collect()
    }

    #[test]
    fn small_bundles_travel_together_and_large_ones_alone() {
        assert_eq!(legs(&[], 10), [[0; 0]; 0]);
        assert_eq!(legs(&[1, 2, 3], 10), [[1, 2, 3]]);
        assert_eq!(
            legs(&[1, 9, 1, 30, 30, 2, 3], 10),
            [vec![1, 9], vec![1, 30], vec![30], vec![2, 3]]
        );
        // What their authors say is not to be believed.
        assert_eq!(legs(&[1, u64::MAX, 1], u64::MAX), [vec![1, u64::MAX], vec![1]]);
        let many = legs(&[1; MAX_BUNDLES_PER_REQUEST + 1], u64::MAX);
        assert_eq!(
            many.iter().map(Vec::len).collect::<Vec<_>>(),
            [MAX_BUNDLES_PER_REQUEST, 1]
        );
    }
}
