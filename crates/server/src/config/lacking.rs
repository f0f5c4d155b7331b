//! What this build does not have: a configuration that asks for it is refused by the key's name.
//!
//! A key that says what this build does anyway is no reason to refuse, nor is one of a block that is switched off: `auth.tls`
//! with `auth.mode: none`, say. A line here goes when its feature comes.

use danube_model::Durability;

use super::value::Value;

/// What a key may say in this build, and why nothing else.
struct Lacking {
    /// A path, or with a dot at the end all that begin with it.
    path: &'static str,
    is_served: fn(&Value) -> bool,
    why: &'static str,
}

const LACKING: &[Lacking] = &[
    Lacking {
        path: "meta_store.seed_nodes",
        is_served: is_empty,
        why: "this build runs one broker alone",
    },
    Lacking { path: "admin_tls", is_served: is_off, why: "this build has no TLS" },
    Lacking {
        path: "auth.mode",
        is_served: |value| is_word(value, "none"),
        why: "this build has no TLS",
    },
    Lacking {
        path: "load_manager.assignment_strategy",
        is_served: |value| is_word(value, "fair"),
        why: "this build runs one broker alone",
    },
    Lacking {
        path: "load_manager.rebalancing.enabled",
        is_served: is_off,
        why: "this build runs one broker alone",
    },
    Lacking {
        path: "policies.max_producers_per_topic",
        is_served: is_zero,
        why: "this build does not limit it",
    },
    Lacking {
        path: "policies.max_subscriptions_per_topic",
        is_served: is_zero,
        why: "this build has no subscriptions",
    },
    Lacking {
        path: "policies.max_consumers_per_topic",
        is_served: is_zero,
        why: "this build has no subscriptions",
    },
    Lacking {
        path: "policies.max_consumers_per_subscription",
        is_served: is_zero,
        why: "this build has no subscriptions",
    },
    Lacking {
        path: "policies.max_publish_rate",
        is_served: is_zero,
        why: "this build does not limit it",
    },
    Lacking {
        path: "policies.max_subscription_dispatch_rate",
        is_served: is_zero,
        why: "this build has no subscriptions",
    },
    Lacking {
        path: "storage.mode",
        is_served: |value| is_word(value, "local"),
        why: "this build has no cold tier",
    },
    Lacking { path: "storage.durable.", is_served: |_| false, why: "this build has no cold tier" },
    Lacking {
        path: "storage.write_buffer.",
        is_served: |_| false,
        why: "this build has no warm tier",
    },
    Lacking {
        path: "storage.durability",
        is_served: |value| {
            matches!(value, Value::Durability(Durability::PageCache | Durability::Disk))
        },
        why: "the tier that it names is not configured",
    },
    Lacking {
        path: "failover.unexported_tail",
        is_served: |value| is_word(value, "wait"),
        why: "this build runs one broker alone",
    },
    Lacking {
        path: "cluster.bootstrap",
        is_served: |value| is_word(value, "refuse"),
        why: "this build has neither warm nor cold tier to restore from",
    },
    Lacking {
        path: "http.allow_remote_admin",
        is_served: is_off,
        why: "this build changes nothing over HTTP",
    },
];

/// Why this build can't do what a key says, if it can't.
pub(crate) fn lacks(path: &str, value: &Value) -> Option<&'static str> {
    let is_meant = |lacking: &&Lacking| match lacking.path.ends_with('.') {
        true => path.starts_with(lacking.path),
        false => path == lacking.path,
    };
    let lacking = LACKING.iter().find(is_meant)?;
    (!(lacking.is_served)(value)).then_some(lacking.why)
}

fn is_empty(value: &Value) -> bool {
    matches!(value, Value::List(items) if items.is_empty())
}

fn is_off(value: &Value) -> bool {
    *value == Value::Switch(false)
}

fn is_zero(value: &Value) -> bool {
    *value == Value::Count(0)
}

fn is_word(value: &Value, word: &str) -> bool {
    matches!(value, Value::Text(text) if text == word)
}

#[cfg(test)]
mod tests {
    use super::super::keys;
    use super::*;

    #[test]
    fn every_line_is_of_a_key() {
        for lacking in LACKING {
            match lacking.path.strip_suffix('.') {
                Some(block) => assert!(keys::is_block(block), "{block}"),
                None => assert!(keys::find(lacking.path).is_some(), "{}", lacking.path),
            }
        }
    }
}
