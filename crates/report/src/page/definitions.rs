//! What the words of a report mean.

use maud::{Markup, html};

/// Its anchor in the page.
pub const ID: &str = "definitions";
/// Its heading.
pub const TITLE: &str = "Definitions";

/// The last section of the page.
pub fn render() -> Markup {
    html! {
        section id=(ID) aria-labelledby="h-definitions" {
            h2 #h-definitions { (TITLE) }
            dl {
                dt { "Certified accuracy at r" }
                dd {
                    "Share of images whose certified class is right, not abstained on, with \
                     radius at least r."
                }
                dt { "Certificate" }
                dd {
                    "Speaks about g(x) = argmax" sub { "c" } " P(v(x+η) = c), the smoothed \
                     classifier, and holds with probability 1-α for each image. It does not \
                     speak about argmax v(x)."
                }
                dt { "ACR" }
                dd {
                    "Average certified radius: the mean over all images of the radius where the \
                     class is right, 0 elsewhere."
                }
                dt { "High-probability accuracy" }
                dd {
                    "What certified accuracy must be at least, with probability 1-ρ over the \
                     whole set, although each certificate may fail with probability α."
                }
                dt { "L-bound" }
                dd {
                    "σ·sqrt(π/2)·(p" sub { "y" } " - max" sub { "i≠y" } " p" sub { "i" } ") on \
                     softmax outputs. It holds if v is exactly a Gaussian average, which no \
                     trained network is."
                }
                dt { "One-pass radius" }
                dd {
                    "σ·Φ⁻¹(p" sub { "(1)" } ") on the softmax outputs of one pass of v; 0 where \
                     the largest is at most 1/2. Calibrated: shrunk and capped, so that on at \
                     most a promised share of inputs like the calibration images it exceeds what \
                     the smoothed reference g has. It says nothing about attacked inputs."
                }
                dt { "CLEVER score" }
                dd {
                    "An estimate, not a bound, of the distance to another class, from gradients \
                     around an image."
                }
                dt { "σ, radii, distances" }
                dd {
                    "In units of pixels scaled to [0,1]; the norm is L2 where nothing else is \
                     said. σ is the standard deviation of the noise, whatever its distribution."
                }
            }
        }
    }
}
