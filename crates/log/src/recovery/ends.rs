//! What is known of where each log ends: proven, not proven, or damaged.

use std::collections::BTreeMap;

use danube_model::{Durability, Epoch, Offset, TopicId};

use super::Report;
use crate::bodies::Bodies;
use crate::checkpoint::{EndDamage, EndProof};
use crate::layout::Layout;
use crate::state::LogState;
use crate::store::Expected;

/// A log of an older copy of the hot tier: what it was given since is not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RolledBack {
    /// Whose log.
    pub topic: TopicId,
    /// Of its last opening that the copy has.
    pub epoch: Epoch,
    /// Of its last opening, as the metadata have it; no log was open under it if a stop came in between.
    pub expected: Epoch,
    /// Where the log ends in the copy.
    pub end: Offset,
}

impl Expected {
    /// The number of the session that begins.
    pub(super) fn session(&self) -> u32 {
        session_number(self.sessions + 1)
    }

    /// Whether a hot tier that was opened last in `session` is an older copy. The session of a checkpoint is durable before
    /// the metadata have it.
    pub(super) fn is_newer_than(&self, session: u32) -> bool {
        session > 0 && session < session_number(self.sessions)
    }

    /// Whether these metadata are an older copy than a hot tier that was opened last in `session` and has these logs. Each
    /// epoch is in the metadata before a log has it.
    fn is_older_than(&self, session: u32, bodies: &mut Bodies) -> bool {
        let was_opened_since = |topic, epoch| self.epochs.get(&topic).is_some_and(|of| *of < epoch);
        session > self.session()
            || bodies.iter_mut().any(|(topic, body)| was_opened_since(topic, body.state.epoch))
    }

    /// What is missing of a log in an older copy, if something may be. One that was closed under the last epoch of its topic is
    /// whole, for whoever opens it takes another.
    fn rolled_back(&self, topic: TopicId, state: &LogState) -> Option<RolledBack> {
        let LogState { epoch, end, open, .. } = *state;
        let expected = *self.epochs.get(&topic)?;
        (open || epoch != expected).then_some(RolledBack { topic, epoch, expected, end })
    }
}

/// As a checkpoint counts sessions.
fn session_number(session: u64) -> u32 {
    u32::try_from(session).unwrap_or(u32::MAX)
}

/// Enters it. That an end is damaged is told at each start, until a gap is accepted. `session` is that in which the hot tier was
/// opened last.
pub(super) fn judge(
    layout: &Layout,
    bodies: &mut Bodies,
    mut damaged: BTreeMap<TopicId, EndDamage>,
    expected: &Expected,
    session: u32,
    report: &mut Report,
) {
    report.metadata_are_older = expected.is_older_than(session, bodies);
    let newer = Some(expected).filter(|expected| expected.is_newer_than(session));
    for (topic, body) in bodies.iter_mut() {
        let state = &mut body.state;
        let found = damaged.remove(&topic);
        if state.end_proof == EndProof::Damaged && found.is_none() {
            let unknown = || EndDamage::unknown(&layout.topic_dir(topic));
            let error = state.end_damage.get_or_insert_with(unknown).error();
            tracing::error!(%topic, end = %state.end, %error, "the end of a log is damaged");
            report.damaged.push(error);
        }
        let rolled_back = newer.and_then(|newer| newer.rolled_back(topic, state));
        report.rolled_back.extend(rolled_back);
        let rests_on_page_cache = state.open && state.level == Durability::PageCache;
        let is_lost = rests_on_page_cache && !report.page_cache_proven;
        state.end_proof = match state.end_proof {
            _ if found.is_some() => EndProof::Damaged,
            EndProof::Proven if is_lost || rolled_back.is_some() => EndProof::Unproven,
            proof => proof,
        };
        state.end_damage = state.end_damage.take().or(found);
        body.shared.view().end_damage = state.end_damage.clone();
        // Read up to here even if it is never opened, because its end is damaged.
        body.shared.durable(body.state.end);
    }
}
