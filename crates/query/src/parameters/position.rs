//! A position by parameters: `pos.ll`, `pos.radius`, `pos.attribute`; equivalent to geoLocation in YQL.

use millrace_document::scalar::position;

use super::{ParameterReader, parameter};
use crate::build::kilometres;
use crate::{Error, ItemAnnotations, QueryItem};

/// Default maximum distance of documents from the position.
const RADIUS_KM: f64 = 50.0;

impl ParameterReader<'_> {
    /// Adds the circle that documents must be in to the tree, if a position is given.
    pub(super) fn with_position(&self, root: QueryItem) -> Result<QueryItem, Error> {
        let Some(text) = self.text("pos.ll") else { return Ok(root) };
        if self.text("pos.xy").is_some() {
            return Err(parameter(
                "pos.xy",
                "Cannot handle both lat/long and xy coords at the same time; give pos.ll alone",
            ));
        }
        let (latitude, longitude) = position(&text).ok_or_else(|| {
            parameter("pos.ll", format!("{text:?} is not a place; for example: 63.4225N;10.3637E"))
        })?;
        let radius_km = match self.text("pos.radius") {
            None => RADIUS_KM,
            Some(text) => kilometres(&text).ok_or_else(|| {
                let units = "units are km, m, miles, mi, deg, d";
                parameter("pos.radius", format!("{text:?} is not a radius; {units}; for example: 5km"))
            })?,
        };
        let circle = QueryItem::GeoLocation {
            field: self.text("pos.attribute").unwrap_or_default(),
            latitude: f64::from(latitude) / 1e6,
            longitude: f64::from(longitude) / 1e6,
            radius_km,
            annotations: ItemAnnotations::default(),
        };
        Ok(QueryItem::And(vec![root, circle]))
    }
}
