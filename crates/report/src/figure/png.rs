//! Figures as PNG, twice the size of the SVG, with our own font.

use std::sync::{Arc, LazyLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb::Database};

use super::Figure;
use crate::ReportError;

/// See `assets/README.md` for where it comes from and its licence.
const FONT: &[u8] = include_bytes!("../../assets/Roboto-Regular-subset.ttf");
const SCALE: f32 = 2.0;

static FONTS: LazyLock<Arc<Database>> = LazyLock::new(|| {
    let mut fonts = Database::new();
    fonts.load_font_data(FONT.to_vec());
    fonts.set_sans_serif_family("Roboto");
    Arc::new(fonts)
});

impl Figure {
    /// The drawing as PNG.
    pub fn to_png(&self) -> Result<Vec<u8>, ReportError> {
        render(&self.id, &self.to_svg())
    }
}

/// The drawing `svg` of the figure `id` as PNG.
pub(super) fn render(id: &str, svg: &str) -> Result<Vec<u8>, ReportError> {
    let error = |reason: String| ReportError::Draw {
        figure: id.to_owned(),
        reason,
    };
    let options = Options {
        fontdb: FONTS.clone(),
        ..Options::default()
    };
    let tree = Tree::from_str(svg, &options).map_err(|source| error(source.to_string()))?;
    let size = tree.size().to_int_size().scale_by(SCALE);
    let mut pixels = size
        .and_then(|size| Pixmap::new(size.width(), size.height()))
        .ok_or_else(|| error("it has no size".into()))?;
    resvg::render(
        &tree,
        Transform::from_scale(SCALE, SCALE),
        &mut pixels.as_mut(),
    );
    pixels
        .encode_png()
        .map_err(|source| error(source.to_string()))
}
