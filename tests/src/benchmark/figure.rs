//! One figure: what was measured, what it is compared with, and what it should be.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A median that is worse by less than this share is not reported: runs on one quiet machine differ
/// by up to a tenth.
const MEDIAN_MARGIN: f64 = 0.15;
/// The same for what the slowest of many take, where one interruption counts.
const TAIL_MARGIN: f64 = 0.75;

/// The unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Microseconds.
    #[serde(rename = "us")]
    Microseconds,
    /// A number of things in a second.
    #[serde(rename = "1/s")]
    PerSecond,
    /// Mebibytes.
    #[serde(rename = "MiB")]
    Mebibytes,
    /// Percent of one processor's time.
    #[serde(rename = "% of a core")]
    PercentOfCore,
    /// A plain number.
    #[serde(rename = "count")]
    Count,
}

/// A number with its unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    value: f64,
    unit: Unit,
}

/// Which direction is an improvement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Less is better: times, memory.
    Lower,
    /// More is better: speed.
    Higher,
}

/// The same work by another program, or by bare system calls, in the same run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bare {
    /// What did it.
    pub what: String,
    /// Its figure, in the unit of the figure beside which it is.
    pub value: f64,
    /// The figure divided by this one.
    pub ratio: f64,
}

/// What a figure should be. It is a limit in the direction that is worse.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Aim {
    /// For the figure itself, in its unit.
    Value(f64),
    /// For its ratio to the bare figure.
    Ratio(f64),
}

/// A figure of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    id: String,
    what: String,
    value: f64,
    unit: Unit,
    better: Better,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bare: Option<Bare>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    aim: Option<Aim>,
    margin: f64,
}

impl Measured {
    /// A number of things in a second.
    pub fn per_second(value: f64) -> Self {
        Self { value, unit: Unit::PerSecond }
    }

    /// Mebibytes.
    pub fn mebibytes(value: f64) -> Self {
        Self { value, unit: Unit::Mebibytes }
    }

    /// Percent of one processor's time.
    pub fn percent(value: f64) -> Self {
        Self { value, unit: Unit::PercentOfCore }
    }

    /// The share of one processor's time that was used, in percent.
    pub fn percent_of_core(used: Duration, of: Duration) -> Self {
        Self::percent(100.0 * used.as_secs_f64() / of.as_secs_f64())
    }

    /// A plain number.
    pub fn count(value: f64) -> Self {
        Self { value, unit: Unit::Count }
    }
}

impl From<Duration> for Measured {
    fn from(time: Duration) -> Self {
        Self { value: time.as_secs_f64() * 1e6, unit: Unit::Microseconds }
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.value;
        match self.unit {
            Unit::Microseconds if value < 1.0 => write!(f, "{:.0} ns", value * 1e3),
            Unit::Microseconds if value < 10.0 => write!(f, "{value:.2} us"),
            Unit::Microseconds if value < 1e3 => write!(f, "{value:.0} us"),
            Unit::Microseconds if value < 1e4 => write!(f, "{:.2} ms", value / 1e3),
            Unit::Microseconds if value < 1e6 => write!(f, "{:.0} ms", value / 1e3),
            Unit::Microseconds => write!(f, "{:.2} s", value / 1e6),
            Unit::PerSecond => write!(f, "{} a second", in_groups(&format!("{value:.0}"))),
            Unit::Mebibytes => write!(f, "{value:.1} MiB"),
            Unit::PercentOfCore => write!(f, "{value:.2} % of a core"),
            Unit::Count => f.write_str(&in_groups(&format!("{value:.0}"))),
        }
    }
}

/// A number of things, for people: in groups of three digits.
pub fn number(count: usize) -> String {
    in_groups(&count.to_string())
}

/// Digits in groups of three.
fn in_groups(digits: &str) -> String {
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

impl Unit {
    /// What can be told apart at all: differences below it are none.
    fn resolution(self) -> f64 {
        match self {
            Self::Microseconds => 0.01,
            Self::PerSecond | Self::Mebibytes | Self::Count => 1.0,
            Self::PercentOfCore => 0.1,
        }
    }
}

impl Figure {
    /// A figure. The id stays the same from release to release and says all that the figure depends
    /// on, such as the number of volumes; `what` is for people.
    ///
    /// Of what is counted by the second, more is better; of everything else, less.
    pub fn new(id: impl Into<String>, what: impl Into<String>, measured: impl Into<Measured>) -> Self {
        let Measured { value, unit } = measured.into();
        let better = if unit == Unit::PerSecond { Better::Higher } else { Better::Lower };
        Self { id: id.into(), what: what.into(), value, unit, better, bare: None, aim: None, margin: MEDIAN_MARGIN }
    }

    /// What the slowest of many took: it differs more from run to run, so its margin is wider.
    #[must_use]
    pub fn with_tail_margin(self) -> Self {
        Self { margin: TAIL_MARGIN, ..self }
    }

    /// Compares with the same work done otherwise in the same run.
    ///
    /// # Panics
    /// If that figure has another unit.
    #[must_use]
    pub fn beside(self, what: impl Into<String>, bare: impl Into<Measured>) -> Self {
        let bare = bare.into();
        assert_eq!(bare.unit, self.unit, "{} is compared with another unit", self.id);
        let ratio = self.value / bare.value.max(self.unit.resolution());
        Self { bare: Some(Bare { what: what.into(), value: bare.value, ratio }), ..self }
    }

    /// Sets the aim for the figure itself: at most this, or at least where more is better.
    ///
    /// # Panics
    /// If the aim has another unit.
    #[must_use]
    pub fn aim(self, limit: impl Into<Measured>) -> Self {
        let limit = limit.into();
        assert_eq!(limit.unit, self.unit, "the aim of {} has another unit", self.id);
        Self { aim: Some(Aim::Value(limit.value)), ..self }
    }

    /// Sets the aim for the ratio to the bare figure: at most this, or at least where more is
    /// better.
    #[must_use]
    pub fn aim_ratio(self, limit: f64) -> Self {
        Self { aim: Some(Aim::Ratio(limit)), ..self }
    }

    /// The id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What it is, for people.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// The figure.
    pub fn measured(&self) -> Measured {
        Measured { value: self.value, unit: self.unit }
    }

    /// What it is compared with.
    pub fn bare(&self) -> Option<(&Bare, Measured)> {
        self.bare.as_ref().map(|bare| (bare, Measured { value: bare.value, unit: self.unit }))
    }

    /// By how much it may be worse than the recorded one, as a share, if nothing disturbs a run.
    pub(super) fn margin(&self) -> f64 {
        self.margin
    }

    /// The aim, for people.
    pub fn aim_text(&self) -> Option<String> {
        let word = match self.better {
            Better::Lower => "at most",
            Better::Higher => "at least",
        };
        self.aim.map(|aim| match aim {
            Aim::Value(value) => format!("{word} {}", Measured { value, unit: self.unit }),
            Aim::Ratio(ratio) => format!("{word} {}", ratio_text(ratio)),
        })
    }

    /// The figure is on the wrong side of its aim. An aim for a ratio is missed, too, if there is
    /// nothing to compare with.
    pub fn misses_aim(&self) -> bool {
        let (value, limit) = match self.aim {
            None => return false,
            Some(Aim::Value(limit)) => (self.value, limit),
            Some(Aim::Ratio(limit)) => (self.bare.as_ref().map_or(f64::NAN, |bare| bare.ratio), limit),
        };
        let is_met = match self.better {
            Better::Lower => value <= limit,
            Better::Higher => value >= limit,
        };
        !is_met
    }

    /// How many times as bad as the recorded figure this one is; 1 if they are equal. Ratios to the
    /// bare figures are compared where both have one, since those are the same on other machines.
    /// None without them if the machines differ.
    pub(super) fn times_worse_than(&self, recorded: &Self, same_machine: bool) -> Option<f64> {
        let (now, then) = match (&self.bare, &recorded.bare) {
            (Some(now), Some(then)) if now.what == then.what => (now.ratio, then.ratio),
            _ if same_machine && self.unit == recorded.unit => {
                let least = self.unit.resolution();
                (self.value.max(least), recorded.value.max(least))
            }
            _ => return None,
        };
        Some(match self.better {
            Better::Lower => now / then,
            Better::Higher => then / now,
        })
    }
}

/// A ratio, for people.
pub(super) fn ratio_text(ratio: f64) -> String {
    if ratio < 0.1 {
        format!("{ratio:.3} x")
    } else if ratio < 10.0 {
        format!("{ratio:.2} x")
    } else {
        format!("{ratio:.0} x")
    }
}
