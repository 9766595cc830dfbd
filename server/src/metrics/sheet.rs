//! Short words for the encoder.

use std::fmt;

use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, NoLabelSet},
    metrics::MetricType,
};

use crate::measure::Reading;

/// Metrics being written down. Names of counters are given without `_total`, which the
/// encoder adds.
pub(super) struct Sheet<'a>(pub(super) DescriptorEncoder<'a>);

/// A value's labels: names and values.
pub(super) type Labels<'a> = Vec<(&'static str, &'a str)>;

impl Sheet<'_> {
    pub(super) fn gauge(
        &mut self,
        name: &str,
        help: &str,
        value: impl EncodeGaugeValue,
    ) -> fmt::Result {
        self.gauges(name, help, [(Vec::new(), value)])
    }

    pub(super) fn gauges<'l, V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels<'l>, V)>,
    ) -> fmt::Result {
        let mut metric = self
            .0
            .encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in values {
            if labels.is_empty() {
                metric.encode_gauge(&value)?;
            } else {
                metric.encode_family(&labels)?.encode_gauge(&value)?;
            }
        }
        Ok(())
    }

    pub(super) fn counter(
        &mut self,
        name: &str,
        help: &str,
        value: impl EncodeCounterValue,
    ) -> fmt::Result {
        self.counters(name, help, [(Vec::new(), value)])
    }

    pub(super) fn counters<'l, V: EncodeCounterValue>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels<'l>, V)>,
    ) -> fmt::Result {
        let mut metric = self
            .0
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in values {
            if labels.is_empty() {
                metric.encode_counter::<NoLabelSet, _, f64>(&value, None)?;
            } else {
                let mut metric = metric.encode_family(&labels)?;
                metric.encode_counter::<NoLabelSet, _, f64>(&value, None)?;
            }
        }
        Ok(())
    }

    pub(super) fn histogram(&mut self, name: &str, help: &str, value: &Reading) -> fmt::Result {
        self.histograms(name, help, [(Vec::new(), value.clone())])
    }

    pub(super) fn histograms<'l>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels<'l>, Reading)>,
    ) -> fmt::Result {
        let mut metric = self
            .0
            .encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (
            labels,
            Reading {
                sum,
                count,
                buckets,
            },
        ) in values
        {
            if labels.is_empty() {
                metric.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
            } else {
                let mut metric = metric.encode_family(&labels)?;
                metric.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
            }
        }
        Ok(())
    }
}
