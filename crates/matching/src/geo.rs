/// Mean radius of the earth in kilometres.
const EARTH_RADIUS_KM: f64 = 6371.0088;

/// Great-circle distance of two positions, in kilometres; the positions are in degrees.
pub fn distance_km(from: (f64, f64), to: (f64, f64)) -> f64 {
    let (latitude, longitude) = ((to.0 - from.0).to_radians(), (to.1 - from.1).to_radians());
    let haversine = (latitude / 2.0).sin().powi(2)
        + from.0.to_radians().cos() * to.0.to_radians().cos() * (longitude / 2.0).sin().powi(2);
    2.0 * EARTH_RADIUS_KM * haversine.sqrt().min(1.0).asin()
}

/// Positions within a distance of a centre.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GeoCircle {
    pub(crate) latitude: f64,
    pub(crate) longitude: f64,
    pub(crate) radius_km: Option<f64>,
}

impl GeoCircle {
    /// Distance from the centre in kilometres.
    pub(crate) fn distance_km(&self, latitude: f64, longitude: f64) -> f64 {
        distance_km((self.latitude, self.longitude), (latitude, longitude))
    }

    /// Distance of a stored position, in millionths of a degree, from the centre in kilometres.
    pub(crate) fn distance_of(&self, latitude: i32, longitude: i32) -> f64 {
        self.distance_km(f64::from(latitude) / 1e6, f64::from(longitude) / 1e6)
    }

    pub(crate) fn contains(&self, latitude: f64, longitude: f64) -> bool {
        self.radius_km.is_none_or(|radius| self.distance_km(latitude, longitude) <= radius)
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
        let distance = distance_km(oslo, trondheim);
        assert!((distance - 391.5).abs() < 1.0, "{distance}");
        let circle = |radius_km| GeoCircle { latitude: oslo.0, longitude: oslo.1, radius_km };
        assert!(circle(Some(392.5)).contains(trondheim.0, trondheim.1));
        assert!(!circle(Some(390.0)).contains(trondheim.0, trondheim.1));
        assert!(circle(None).contains(-80.0, 170.0));
        assert!(GeoBox([59.0, 10.0, 60.0, 11.0]).contains(oslo.0, oslo.1));
        assert!(!GeoBox([59.0, 10.0, 60.0, 11.0]).contains(trondheim.0, trondheim.1));
        assert!(GeoBox([-10.0, 170.0, 10.0, -170.0]).contains(0.0, -175.0));
        assert!(!GeoBox([-10.0, 170.0, 10.0, -170.0]).contains(0.0, 0.0));
    }
}
