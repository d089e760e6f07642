//! Geographic conditions: within a distance of a position, or in a box.

use millrace_document::DataType;
use millrace_query::ItemAnnotations;

use super::{ItemScope, TreeBuilder, wrong};
use crate::{Error, PlanNode, Predicate};

impl TreeBuilder<'_> {
    /// Condition for at most `radius_km` from a position, given by latitude and longitude; a negative radius
    /// means no limit.
    pub(super) fn geo_circle(
        &mut self,
        field: &str,
        [latitude, longitude]: [f64; 2],
        radius_km: f64,
        annotations: &ItemAnnotations,
    ) -> Result<PlanNode, Error> {
        check_degrees(field, latitude, longitude)?;
        let radius_km = (radius_km >= 0.0).then_some(radius_km);
        self.geo(field, annotations, &Predicate::GeoCircle { latitude, longitude, radius_km })
    }

    /// Condition for positions between south, west, north and east.
    pub(super) fn geo_box(
        &mut self,
        field: &str,
        corners: [f64; 4],
        annotations: &ItemAnnotations,
    ) -> Result<PlanNode, Error> {
        let [south, west, north, east] = corners;
        check_degrees(field, south, west)?;
        check_degrees(field, north, east)?;
        self.geo(field, annotations, &Predicate::GeoBox(corners))
    }

    /// Without a name, the position field is used.
    fn geo(
        &mut self,
        field: &str,
        annotations: &ItemAnnotations,
        predicate: &Predicate,
    ) -> Result<PlanNode, Error> {
        let scope = ItemScope { element: None, typed: false };
        let only = || self.schema.fields.values().find(|field| field.data_type.has_nested_positions());
        let field = match only() {
            Some(only) if field.is_empty() => &only.name,
            _ => field,
        };
        self.term_in_fields(field, scope, annotations, field, |target| match target.value_type {
            DataType::Position => Ok(Some(predicate.clone())),
            other => Err(wrong(
                &target.path,
                format!("it holds {other}; a place on earth needs the type position"),
            )),
        })
    }
}

fn check_degrees(field: &str, latitude: f64, longitude: f64) -> Result<(), Error> {
    if latitude.abs() <= 90.0 && longitude.abs() <= 180.0 {
        return Ok(());
    }
    Err(wrong(
        field,
        format!("{latitude} {longitude} is not a place; latitudes are -90 to 90, longitudes -180 to 180"),
    ))
}
