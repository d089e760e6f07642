//! Places on the earth: circles and boxes around them, and their distances.

/// Mean radius of the earth in kilometres.
const EARTH_RADIUS_KM: f64 = 6371.0088;

/// Position from which the distances of many others are measured.
#[derive(Debug, Clone, Copy)]
pub struct GeoCentre {
    latitude: f64,
    longitude: f64,
    /// Cosine of the latitude.
    cosine: f64,
}

impl GeoCentre {
    /// Prepares a position; both are in degrees.
    pub fn new(latitude: f64, longitude: f64) -> Self {
        GeoCentre { latitude, longitude, cosine: latitude.to_radians().cos() }
    }

    /// Great-circle distance of a position in degrees, in kilometres.
    pub fn distance_km(&self, latitude: f64, longitude: f64) -> f64 {
        kilometres(self.of_latitude(latitude) + self.of_longitude(latitude, longitude))
    }

    /// Distance of a stored position, in millionths of a degree, on a plane that is narrowed by the cosine of
    /// the centre's latitude; in kilometres. Raw scores are made of it, to the same numbers as in Vespa.
    pub fn plane_distance_km(&self, latitude: i32, longitude: i32) -> f64 {
        let microdegrees = |degrees: f64| (degrees * 1e6) as i32;
        let across = f64::from(longitude.abs_diff(microdegrees(self.longitude)));
        let along = f64::from(latitude.abs_diff(microdegrees(self.latitude)));
        let microdegrees = (across * self.cosine).floor().hypot(along);
        (microdegrees / 1e6).to_radians() * EARTH_RADIUS_KM
    }

    /// Part of the difference of latitudes in the haversine, which is the square of half of the chord on a
    /// sphere of radius 1 and grows with the distance.
    fn of_latitude(&self, latitude: f64) -> f64 {
        ((latitude - self.latitude).to_radians() / 2.0).sin().powi(2)
    }

    fn of_longitude(&self, latitude: f64, longitude: f64) -> f64 {
        let half = (longitude - self.longitude).to_radians() / 2.0;
        self.cosine * latitude.to_radians().cos() * half.sin().powi(2)
    }
}

fn kilometres(haversine: f64) -> f64 {
    2.0 * EARTH_RADIUS_KM * haversine.sqrt().min(1.0).asin()
}

/// Positions within a distance of a centre.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GeoCircle {
    centre: GeoCentre,
    /// Haversine of the radius; `None` if every position is within.
    limit: Option<f64>,
    /// Difference of latitudes in degrees from which on a position is certainly beyond the radius.
    reach: f64,
}

impl GeoCircle {
    /// The circle around a position in degrees; one without a radius contains every position.
    pub(crate) fn new(latitude: f64, longitude: f64, radius_km: Option<f64>) -> Self {
        let angle = radius_km.map(|radius| radius / (2.0 * EARTH_RADIUS_KM));
        let limit =
            angle.filter(|angle| *angle < std::f64::consts::FRAC_PI_2).map(|angle| match angle < 0.0 {
                true => -1.0,
                false => angle.sin().powi(2),
            });
        // Where sines hardly grow any more, one beyond the reach could be rounded to the limit.
        let reach = angle.filter(|angle| *angle < 1.5).map(|angle| 2.0 * angle.to_degrees() + 1e-6);
        let reach = reach.unwrap_or(f64::INFINITY);
        GeoCircle { centre: GeoCentre::new(latitude, longitude), limit, reach }
    }

    /// Haversine of a stored position, in millionths of a degree; infinite if its latitude alone is beyond
    /// the radius.
    pub(crate) fn haversine_of(&self, latitude: i32, longitude: i32) -> f64 {
        self.haversine(f64::from(latitude) / 1e6, f64::from(longitude) / 1e6)
    }

    /// Distance in kilometres of a position with this haversine; `None` if it is beyond the radius.
    pub(crate) fn distance_within(&self, haversine: f64) -> Option<f64> {
        (haversine <= self.limit.unwrap_or(f64::MAX)).then(|| kilometres(haversine))
    }

    fn haversine(&self, latitude: f64, longitude: f64) -> f64 {
        // Most positions outside are so by their latitude, and most of these without a sine of it.
        let difference = (latitude - self.centre.latitude).abs();
        if difference > self.reach && difference < 180.0 {
            return f64::INFINITY;
        }
        let of_latitude = self.centre.of_latitude(latitude);
        match self.limit {
            Some(limit) if of_latitude > limit => f64::INFINITY,
            _ => of_latitude + self.centre.of_longitude(latitude, longitude),
        }
    }

    /// True if a position in degrees is not farther away than the radius.
    pub(crate) fn contains(&self, latitude: f64, longitude: f64) -> bool {
        self.limit.is_none_or(|limit| self.haversine(latitude, longitude) <= limit)
    }
}

/// South, west, north, east. A box whose west exceeds its east crosses the date line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GeoBox(pub(crate) [f64; 4]);

impl GeoBox {
    pub(crate) fn contains(&self, latitude: f64, longitude: f64) -> bool {
        let [south, west, north, east] = self.0;
        let across = if west <= east {
            (west..=east).contains(&longitude)
        } else {
            longitude >= west || longitude <= east
        };
        across && (south..=north).contains(&latitude)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_on_earth() {
        let (oslo, trondheim) = ((59.9139, 10.7522), (63.4305, 10.3951));
        let distance = GeoCentre::new(oslo.0, oslo.1).distance_km(trondheim.0, trondheim.1);
        assert!((distance - 391.5).abs() < 1.0, "{distance}");
        let plane = GeoCentre::new(oslo.0, oslo.1).plane_distance_km(63_430_500, 10_395_100);
        assert!((plane - 391.5).abs() < 2.0, "{plane}");
        let circle = |radius_km| GeoCircle::new(oslo.0, oslo.1, radius_km);
        assert!(circle(Some(392.5)).contains(trondheim.0, trondheim.1));
        assert!(!circle(Some(390.0)).contains(trondheim.0, trondheim.1));
        assert!(circle(None).contains(-80.0, 170.0));
        assert!(circle(Some(0.0)).contains(oslo.0, oslo.1));
        assert!(!circle(Some(0.0)).contains(oslo.0, oslo.1 + 1e-6));
        assert!(!circle(Some(-1.0)).contains(oslo.0, oslo.1));
        assert!(
            circle(Some(20_100.0)).contains(-oslo.0, oslo.1 - 180.0),
            "half of the earth's circumference"
        );
        assert!(!circle(Some(19_900.0)).contains(-oslo.0, oslo.1 - 180.0));
        for radius in [0.0, 1e-3, 1.0, 391.0, 5000.0, 19_000.0, 19_112.0, 19_113.0, 20_015.0] {
            let circle = circle(Some(radius));
            for step in 0..2000 {
                let (latitude, longitude) = (f64::from(step) * 0.09 - 90.0, f64::from(step % 7));
                let centre = &circle.centre;
                let whole = centre.of_latitude(latitude) + centre.of_longitude(latitude, longitude);
                let is_within = circle.limit.is_none_or(|limit| whole <= limit);
                assert_eq!(
                    circle.contains(latitude, longitude),
                    is_within,
                    "{radius} {latitude} {longitude}"
                );
            }
        }
        assert!(GeoBox([59.0, 10.0, 60.0, 11.0]).contains(oslo.0, oslo.1));
        assert!(!GeoBox([59.0, 10.0, 60.0, 11.0]).contains(trondheim.0, trondheim.1));
        assert!(GeoBox([-10.0, 170.0, 10.0, -170.0]).contains(0.0, -175.0));
        assert!(!GeoBox([-10.0, 170.0, 10.0, -170.0]).contains(0.0, 0.0));
    }
}
