//! The connections that read. Each read is one short transaction on a blocking thread; none stays open while somebody
//! waits for the network.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::connection;
use super::failure::Failure;
use crate::store::StoreError;

/// Connections unless told otherwise: more would only wait for each other's processors.
const USUAL_READERS: usize = 4;

/// A few connections, lent to one read at a time.
#[derive(Debug, Clone)]
pub(super) struct Readers {
    idle: Arc<Mutex<Vec<Connection>>>,
    permits: Arc<Semaphore>,
    count: usize,
}

impl Readers {
    /// Opens all of them now: a connection that is opened later could be the one that rebuilds the index of the log,
    /// and would take up what was never acknowledged.
    pub(super) fn open(database: &Path, count: usize) -> rusqlite::Result<Self> {
        let count = if count == 0 { USUAL_READERS } else { count };
        let idle: Vec<_> = (0..count)
            .map(|_| connection::open_reader(database))
            .collect::<Result<_, _>>()?;
        for connection in &idle {
            connection.query_row("SELECT count(*) FROM hub", (), |_| Ok(()))?;
        }
        Ok(Self {
            idle: Arc::new(Mutex::new(idle)),
            permits: Arc::new(Semaphore::new(count)),
            count,
        })
    }

    /// Runs `work` in one read transaction.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        let closed = || StoreError::Stopped("it has been closed".to_owned());
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| closed())?;
        let connection = self.lock().pop().ok_or_else(closed)?;
        let idle = Arc::clone(&self.idle);
        let read = tokio::task::spawn_blocking(move || {
            let mut lent = Lent {
                connection: Some(connection),
                idle,
            };
            let result = lent.read(work);
            drop(lent);
            drop(permit);
            result
        });
        read.await
            .unwrap_or_else(|error| Err(StoreError::Database(error.to_string())))
    }

    /// Waits for the reads that run and closes the connections.
    pub(super) async fn close(&self) {
        let all = u32::try_from(self.count).unwrap_or(u32::MAX);
        if let Ok(permits) = self.permits.acquire_many(all).await {
            self.lock().clear();
            self.permits.close();
            drop(permits);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that goes back when the read is over, however it ends.
struct Lent {
    connection: Option<Connection>,
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl Lent {
    fn read<T>(&mut self, work: impl FnOnce(&Connection) -> Result<T, Failure>) -> Result<T, StoreError> {
        let Some(connection) = &mut self.connection else {
            return Err(StoreError::Database("no connection".to_owned()));
        };
        let in_transaction = || {
            let transaction = connection.transaction()?;
            work(&transaction)
            // Rolled back when dropped: there is nothing to commit.
        };
        in_transaction().map_err(Failure::into_store_error)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.idle
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(connection);
        }
    }
}
