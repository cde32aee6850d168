//! The jobs of a service: those of the log against those that are offered. Who works on one, and for how long, is in no
//! message, and so nothing to compare.

use std::collections::{BTreeMap, HashMap};

use parler_protocol::api::JobState;
use parler_protocol::{Message, MessageId, Part, TaskStatus};

use crate::store::{StoredJob, StoredMessage, StoredRoom};

/// The jobs of a room, as its log has them.
#[derive(Debug)]
pub(super) struct Jobs {
    is_service: bool,
    by_seq: BTreeMap<i64, Job>,
    by_id: HashMap<MessageId, i64>,
}

#[derive(Debug)]
struct Job {
    /// The key of the account that posted it.
    requester: Option<Vec<u8>>,
    /// How it ended.
    end: Option<JobState>,
}

impl Jobs {
    /// Of a room of which nothing is read yet.
    pub(super) fn of(room: &StoredRoom) -> Self {
        Self {
            is_service: room.is_service,
            by_seq: BTreeMap::new(),
            by_id: HashMap::new(),
        }
    }

    /// Takes in the next message. That whoever said so was allowed to was judged when it was posted.
    pub(super) fn take(&mut self, stored: &StoredMessage, message: &Message) {
        if !self.is_service {
            return;
        }
        for part in &message.parts {
            match part {
                Part::Dispatch(_) => {
                    let job = Job {
                        requester: stored.agent.clone(),
                        end: None,
                    };
                    self.by_seq.insert(stored.seq, job);
                    self.by_id.insert(message.id, stored.seq);
                }
                Part::Task(task) => {
                    let id = task.about(message.reply_to);
                    let job = id.and_then(|id| self.by_seq.get_mut(self.by_id.get(&id)?));
                    let end = match task.status {
                        TaskStatus::Done => JobState::Done,
                        TaskStatus::Failed => JobState::Failed,
                        TaskStatus::Cancelled => JobState::Cancelled,
                        _ => continue,
                    };
                    if let Some(job) = job {
                        job.end = Some(end);
                    }
                }
                _ => {}
            }
        }
    }

    /// What does not stand as the log says, each with the number of its message.
    pub(super) fn compare(&self, stored: &[StoredJob]) -> Vec<(i64, String)> {
        let mut found = Vec::new();
        let rows: BTreeMap<i64, &StoredJob> = stored.iter().map(|row| (row.seq, row)).collect();
        for (seq, job) in &self.by_seq {
            let Some(row) = rows.get(seq) else {
                found.push((*seq, "is a job, and nobody is offered it".to_owned()));
                continue;
            };
            if job.requester.as_ref() != Some(&row.requester) {
                found.push((*seq, "the job is said to be of another than its author".to_owned()));
            }
            let state: Option<JobState> = row.state.parse().ok();
            let fits = match (state, job.end) {
                (Some(state), Some(end)) => state == end,
                (Some(state), None) => state.is_open() || state == JobState::Dead,
                (None, _) => false,
            };
            if !fits {
                let of_log = job.end.map_or("not at an end", JobState::as_str);
                found.push((*seq, format!("the job is {}, and by the log {of_log}", row.state)));
            }
        }
        for seq in rows.keys().filter(|seq| !self.by_seq.contains_key(seq)) {
            found.push((*seq, "is no job, and is offered as one".to_owned()));
        }
        found
    }
}
