//! Times as Kubernetes' JSON has them, of seconds since 1970.

const DAY_SECONDS: i64 = 24 * 3600;

/// RFC 3339, with microseconds where they are given. `None` for years that it cannot write.
pub(super) fn rfc3339(seconds: i64, micros: Option<u32>) -> Option<String> {
    let (year, month, day) = date(seconds.div_euclid(DAY_SECONDS))?;
    let of_day = seconds.rem_euclid(DAY_SECONDS);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let whole = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    Some(match micros {
        Some(micros) => format!("{whole}.{micros:06}Z"),
        None => format!("{whole}Z"),
    })
}

/// Year, month and day of a day since 1970, in the years 0 to 9999. Years are counted from
/// March here, so that the leap day is the last.
fn date(days: i64) -> Option<(i64, i64, i64)> {
    /// From the first of March of the year 0 to 1970.
    const TO_1970: i64 = 719_468;
    const OF_400_YEARS: i64 = 146_097;
    let days = days.checked_add(TO_1970)?;
    let (era, day) = (days.div_euclid(OF_400_YEARS), days.rem_euclid(OF_400_YEARS));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    let year = era * 400 + year + next;
    (0..=9999).contains(&year).then_some((year, month, day))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use humantime::format_rfc3339_seconds;

    use super::*;

    #[test]
    fn every_day_is_written_as_others_write_it() {
        for day in 0..100_000_i64 {
            let seconds = day * DAY_SECONDS + day % DAY_SECONDS;
            let time = UNIX_EPOCH + Duration::from_secs(seconds.unsigned_abs());
            let expected = format_rfc3339_seconds(time).to_string();
            assert_eq!(rfc3339(seconds, None), Some(expected));
        }
    }

    #[test]
    fn times_before_1970_and_beyond_what_can_be_written() {
        let text = |seconds| rfc3339(seconds, None);
        assert_eq!(text(-1).as_deref(), Some("1969-12-31T23:59:59Z"));
        assert_eq!(
            text(-62_135_596_800).as_deref(),
            Some("0001-01-01T00:00:00Z")
        );
        assert_eq!(
            text(253_402_300_799).as_deref(),
            Some("9999-12-31T23:59:59Z")
        );
        assert_eq!(text(253_402_300_800), None);
        assert_eq!((text(i64::MIN), text(i64::MAX)), (None, None));
        let exact = rfc3339(0, Some(1234));
        assert_eq!(exact.as_deref(), Some("1970-01-01T00:00:00.001234Z"));
    }
}
