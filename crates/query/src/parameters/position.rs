//! A place by parameters: `pos.ll` or `pos.xy` with `pos.radius`, or `pos.bb`, for `pos.attribute`;
//! equivalent to geoLocation and geoBoundingBox in YQL.

use millrace_document::scalar::position;

use super::{ParameterReader, parameter};
use crate::build::{KILOMETRES_PER_DEGREE, kilometres};
use crate::{Error, ItemAnnotations, QueryItem};

/// Default maximum distance of documents from the position.
const RADIUS_KM: f64 = 50.0;
const KM_PER_MICRODEGREE: f64 = KILOMETRES_PER_DEGREE / 1e6;

impl ParameterReader<'_> {
    /// Adds the circle or the box that documents must be in to the tree, if there is one. A
    /// `ranking.location` takes their place.
    pub(super) fn with_position(&self, root: QueryItem) -> Result<QueryItem, Error> {
        if let Some(text) = self.text("ranking.location") {
            let mut items = legacy_location(&text).ok_or_else(|| {
                let form = "FIELD:(2,LONGITUDE,LATITUDE,RADIUS,0,1,0) or FIELD:[2,WEST,SOUTH,EAST,NORTH]";
                let reason =
                    format!("{text:?} is not {form} in millionths of a degree; or write geoLocation");
                parameter("ranking.location", reason)
            })?;
            items.insert(0, root);
            return Ok(QueryItem::And(items));
        }
        let place = match (self.text("pos.ll"), self.text("pos.xy")) {
            (Some(_), Some(_)) => {
                return Err(parameter(
                    "pos.xy",
                    "Cannot handle both lat/long and xy coords at the same time; give pos.ll alone",
                ));
            }
            (Some(text), None) => Some(position(&text).ok_or_else(|| {
                parameter("pos.ll", format!("{text:?} is not a place; for example: 63.4225N;10.3637E"))
            })?),
            (None, Some(text)) => Some(microdegrees(&text).ok_or_else(|| {
                parameter("pos.xy", format!("{text:?} is not longitude and latitude in millionths of a degree; for example: 10363700;63422500"))
            })?),
            (None, None) => None,
        };
        let mut items = vec![root];
        if let Some((latitude, longitude)) = place {
            items.push(QueryItem::GeoLocation {
                field: self.text("pos.attribute").unwrap_or_default(),
                latitude: f64::from(latitude) / 1e6,
                longitude: f64::from(longitude) / 1e6,
                radius_km: self.radius_km()?,
                annotations: ItemAnnotations::default(),
            });
        }
        if let Some(text) = self.text("pos.bb") {
            items.push(QueryItem::GeoBoundingBox {
                field: self.text("pos.attribute").unwrap_or_default(),
                corners: corners(&text).ok_or_else(|| {
                    parameter(
                        "pos.bb",
                        format!("{text:?} is not a box; for example: n=63.45,s=63.25,e=10.61,w=10.01"),
                    )
                })?,
                annotations: ItemAnnotations::default(),
            });
        }
        match items.len() {
            1 => Ok(items.remove(0)),
            _ => Ok(QueryItem::And(items)),
        }
    }

    fn radius_km(&self) -> Result<f64, Error> {
        let Some(text) = self.text("pos.radius") else { return Ok(RADIUS_KM) };
        // A negative radius has no end.
        if let Ok(microdegrees) = text.parse::<i32>() {
            return Ok(f64::from(microdegrees) * KM_PER_MICRODEGREE);
        }
        kilometres(&text).ok_or_else(|| {
            let units = "units are km, m, miles, mi, deg, d";
            parameter("pos.radius", format!("{text:?} is not a radius; {units}; for example: 5km"))
        })
    }
}

/// Latitude and longitude of `longitude;latitude`, all in millionths of a degree.
fn microdegrees(text: &str) -> Option<(i32, i32)> {
    let (longitude, latitude) = text.split_once(';')?;
    let read = |text: &str, max: i32| {
        text.trim().parse().ok().filter(|degrees: &i32| degrees.unsigned_abs() <= max.unsigned_abs())
    };
    Some((read(latitude, 90_000_000)?, read(longitude, 180_000_000)?))
}

/// South, west, north and east of `n=…,s=…,e=…,w=…` in degrees, in any order, each once.
fn corners(text: &str) -> Option<[f64; 4]> {
    let mut corners = [None; 4];
    for side in text.split([',', ' ']).filter(|side| !side.is_empty()) {
        let (name, degrees) = side.split_once(['=', ':'])?;
        let (at, max) = match name.trim().to_ascii_lowercase().as_str() {
            "s" | "south" => (0, 90.0),
            "w" | "west" => (1, 180.0),
            "n" | "north" => (2, 90.0),
            "e" | "east" => (3, 180.0),
            _ => return None,
        };
        let degrees: f64 = degrees.trim().parse().ok().filter(|degrees: &f64| degrees.abs() <= max)?;
        if corners[at].replace(degrees).is_some() {
            return None;
        }
    }
    let [south, west, north, east] = corners;
    let [south, west, north, east] = [south?, west?, north?, east?];
    (south <= north).then_some([south, west, north, east])
}

/// The circle and the box of `ranking.location`: `field:(2,x,y,radius,0,1,0)` or `field:[2,x1,y1,x2,y2]`, or
/// both, in millionths of a degree, x being the longitude. A negative radius has no end.
fn legacy_location(text: &str) -> Option<Vec<QueryItem>> {
    let (field, mut rest) = text.split_once(':').unwrap_or(("", text));
    let mut items = Vec::new();
    while !rest.trim().is_empty() {
        if items.len() == 2 {
            return None;
        }
        let circle = rest.trim().strip_prefix('(');
        let (inner, after) = match circle {
            Some(rest) => rest.split_once(')')?,
            None => rest.trim().strip_prefix('[')?.split_once(']')?,
        };
        rest = after;
        let numbers: Vec<i32> = inner.split(',').map_while(|number| number.trim().parse().ok()).collect();
        let degrees = |number: i32| f64::from(number) / 1e6;
        let (field, annotations) = (field.trim().to_owned(), ItemAnnotations::default());
        items.push(match (circle, numbers.as_slice()) {
            // A last part, the aspect, is for planes.
            (Some(_), &[2, x, y, radius, _, _, _, ..]) => QueryItem::GeoLocation {
                field,
                latitude: degrees(y),
                longitude: degrees(x),
                radius_km: f64::from(radius) * KM_PER_MICRODEGREE,
                annotations,
            },
            (None, &[2, west, south, east, north]) => QueryItem::GeoBoundingBox {
                field,
                corners: [south, west, north, east].map(degrees),
                annotations,
            },
            _ => return None,
        });
    }
    (!items.is_empty()).then_some(items)
}
