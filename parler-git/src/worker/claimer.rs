//! Asks for jobs, one after the other, and starts a thread for each. Waits without asking again: the hub answers when there is
//! one. Never holds more than it was told to.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use parler_client::{Client, ClientError, rests_of_a_stream};
use parler_protocol::api::{ClaimJob, ClaimedJob};
use parler_protocol::limits::MAX_WAIT;
use parler_protocol::{Fence, MessageId, ServiceName};

use super::bench::{Bench, News};
use super::stop::{Stop, Wake};
use crate::error::{Error, ErrorKind, Result};

/// How many jobs are asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Appetite {
    /// One alone.
    pub(crate) once: bool,
    /// At the same time.
    pub(crate) most: usize,
    /// Also such as this worker has asked for itself.
    pub(crate) own: bool,
}

/// Claims jobs and works on them until it is told to stop, or, where one is enough, has had one.
pub(crate) fn claim_until_stopped(
    bench: &Arc<Bench>,
    client: &Client,
    appetite: Appetite,
    news: &Sender<News>,
) -> Result<()> {
    let claimer = Claimer::new(client, &bench.service, (bench.lease, appetite.own), &bench.stop)?;
    while bench.stop.wait_for_room(appetite.most) {
        let Some(claimed) = claimer.claim(|line| _ = news.send(News::Remark(line)))? else {
            break;
        };
        let woken = Wake::new().map_err(|error| Error::io("make a pipe", &error))?;
        let (worker, _) = client.beside()?;
        let busy = bench.stop.begin_work(woken.0.clone());
        let (bench, news) = (Arc::clone(bench), news.clone());
        let work = move || {
            bench.work(&worker, claimed, (busy, woken), &news);
            // Before its last word is: what it worked in is gone when nobody can say anything any more.
            drop(bench);
            drop(news);
        };
        let started = thread::Builder::new().name("job".to_owned()).spawn(work);
        started.map_err(|error| Error::io("start a thread", &error))?;
        if appetite.once {
            break;
        }
    }
    Ok(())
}

/// Who asks for jobs.
pub(crate) struct Claimer<'a> {
    client: &'a Client,
    /// What is stopped in the middle of waiting.
    asking: Client,
    service: &'a ServiceName,
    lease: Duration,
    own: bool,
    stop: &'a Stop,
}

impl<'a> Claimer<'a> {
    /// For this service, as the agent of this client; a job is asked for with this lease, and also for such as the agent has
    /// asked for itself, or not.
    pub(crate) fn new(
        client: &'a Client,
        service: &'a ServiceName,
        (lease, own): (Duration, bool),
        stop: &'a Stop,
    ) -> Result<Self> {
        let (asking, stopper) = client.beside()?;
        stop.add_stopper(stopper);
        Ok(Self {
            client,
            asking,
            service,
            lease,
            own,
            stop,
        })
    }

    /// Asks for a job until there is one. None: no more are asked for. Says once when the hub cannot be reached.
    pub(crate) fn claim(&self, mut remark: impl FnMut(String)) -> Result<Option<ClaimedJob>> {
        let mut rests = rests_of_a_stream();
        let mut is_told = false;
        // Under one id until there is an answer: where that was lost, the hub may have given a job.
        let mut asked = self.ask();
        while self.stop.wants_more() {
            match self.asking.claim_job_as(self.service, &asked, MAX_WAIT) {
                Ok(Some(claimed)) => return Ok(Some(claimed)),
                Ok(None) => {
                    asked = self.ask();
                    rests = rests_of_a_stream();
                    is_told = false;
                }
                Err(ClientError::ToldToStop) => self.give_back(&asked),
                Err(error) => {
                    let error = Error::from(error);
                    if error.kind != ErrorKind::Unreachable {
                        self.give_back(&asked);
                        return Err(error);
                    }
                    if !is_told {
                        remark(format!("{}; waiting for it", error.what()));
                        is_told = true;
                    }
                    self.stop.rest_from_asking(rests.next().expect("rests have no end"));
                }
            }
        }
        Ok(None)
    }

    fn ask(&self) -> ClaimJob {
        ClaimJob {
            id: MessageId::generate(),
            lease_seconds: Some(self.lease.as_secs()),
            wait_seconds: None,
            own: self.own,
        }
    }

    /// The hub may have given a job in the moment when nobody listened any more: asked again under the same id it gives the
    /// same.
    fn give_back(&self, asked: &ClaimJob) {
        if let Ok(Some(claimed)) = self.client.claim_job_as(self.service, asked, Duration::ZERO) {
            let fence = Fence {
                seq: claimed.seq,
                number: claimed.fence,
            };
            // What is not given back is free when the lease ends.
            let _ = self.client.release_claim(self.service, fence);
        }
    }
}
